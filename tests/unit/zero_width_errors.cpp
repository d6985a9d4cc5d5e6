// ctest: name=zero_width_errors timeout=60 labels=sanitize
// The losses of widths. For whole shards they are exactly the losses of encoding and decoding, for
// larger shards nearly. For the gradients of a bucket they are the losses of the own shard,
// wherever segments cut it.
#include <gtest/gtest.h>

#include <random>

#include "lib/zero/quantization/width_errors.hpp"

namespace zeropp::zero {
namespace {

std::vector<float> normal_values(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// The error of a codec over all values, as the wire has them.
double codec_error_of(const char* name, const std::vector<float>& values) {
  const codec::Codec codec(codec::parse_codec(name), Dtype::fp32);
  const auto layout = codec::Layout::contiguous(values.size());
  Buffer image(codec.wire_bytes(values.size()), MemoryKind::host);
  std::vector<float> decoded(values.size());
  codec.encode(ConstView::of(values.data(), values.size()), layout, {image.data(), image.bytes()},
               {});
  codec.decode({image.data(), image.bytes()}, layout, View::of(decoded.data(), decoded.size()), {});
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = double{decoded[i]} - double{values[i]};
    sum += off * off;
  }
  return sum;
}

const std::vector<codec::CodecSpec>& codecs() {
  static const std::vector<codec::CodecSpec> list{
      codec::parse_codec("int2:64"), codec::parse_codec("int5:64"), codec::parse_codec("int8:64")};
  return list;
}

TEST(WidthErrors, SamplesAreOrderedAndInside) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kSampled, kSampled + 1, kSampled + 4097,
        3 * kSampled, 50 * kSampled + 17}) {
    std::size_t end = 0;
    std::size_t sampled = 0;
    for (const Extent& run : sample_of(count)) {
      EXPECT_GE(run.begin, end) << count;
      EXPECT_EQ(run.begin % 8192, 0U);
      end = run.begin + run.count;
      sampled += run.count;
    }
    EXPECT_LE(end, count);
    EXPECT_EQ(sampled, std::min(count, kSampled));
    EXPECT_GE(end + 8192 + kSampled, count) << "the end is seen as well";
  }
}

TEST(WidthErrors, OfShardsAreWhatTheCodecsLose) {
  const std::vector<UnitPartition> units{{.shard = 1000}, {.shard = 36}, {.shard = 3 * kSampled}};
  WidthErrors errors(codecs(), Dtype::fp32, units, 0, Device::host());
  std::vector<std::vector<float>> values;
  std::vector<ConstView> shards;
  for (const UnitPartition& unit : units) {
    values.push_back(normal_values(unit.shard, 0.5F, static_cast<unsigned>(unit.shard)));
    shards.push_back(ConstView::of(values.back().data(), unit.shard));
  }
  const Stream stream = Device::host().make_stream("test");
  errors.keep(shards, stream.handle());
  const auto found = errors.measure(stream);
  ASSERT_EQ(found.size(), 3U);
  for (std::size_t u = 0; u < 3; ++u) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double exact = codec_error_of(to_string(codecs()[i]).c_str(), values[u]);
      // Whole shards exactly, but for the order of sums; of a sample its own noise is left.
      EXPECT_NEAR(found[u][i], exact, exact * (u < 2 ? 1e-12 : 0.05)) << u << " " << i;
    }
    EXPECT_GT(found[u][0], 30 * found[u][1]);
    EXPECT_GT(found[u][1], 30 * found[u][2]);
  }
  EXPECT_EQ(errors.memory().predicted, errors.memory().actual);
}

TEST(WidthErrors, OfGradientsAreOfTheOwnShard) {
  // Two ranks; one unit whose shard two buckets cut, at a multiple of the block.
  const std::size_t shard = 64 * 11 + 16;
  const std::vector<UnitPartition> units{{.shard = shard}};
  std::vector<float> full = normal_values(2 * shard, 2.0F, 3);
  const std::vector<View> gradients{View::of(full.data(), full.size())};
  const Stream stream = Device::host().make_stream("test");
  for (const std::size_t rank : {0U, 1U}) {
    WidthErrors errors(codecs(), Dtype::fp32, units, rank, Device::host());
    errors.keep(Bucket{{{0, 0, 512}}}, gradients, stream.handle());
    errors.keep(Bucket{{{0, 512, shard - 512}}}, gradients, stream.handle());
    const std::vector<float> own(full.begin() + static_cast<std::ptrdiff_t>(rank * shard),
                                 full.begin() + static_cast<std::ptrdiff_t>((rank + 1) * shard));
    const auto found = errors.measure(stream);
    for (std::size_t i = 0; i < 3; ++i) {
      const double exact = codec_error_of(to_string(codecs()[i]).c_str(), own);
      EXPECT_NEAR(found[0][i], exact, exact * 1e-12);
    }
  }
}

}  // namespace
}  // namespace zeropp::zero
