// ctest: name=contract1_codec_host timeout=180 labels=sanitize
// The contract of every registered codec, whatever its rule: a new file in kernels/codec/formats is
// tested here without an edit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

class EveryCodec : public testing::TestWithParam<Binding> {
 protected:
  Binding binding_ = GetParam();
  Codec codec_ = binding_.bind();
  std::size_t block_ = codec_.block();

  /// Encodes, decodes to fp32 and to the memory dtype, and holds every value against the format's
  /// bound and the rules for values that are not finite.
  void expect_faithful(const Values& in) {
    const Wire wire = encoded(codec_, in);
    const Values wide = decoded(codec_, wire, in.size(), Dtype::fp32);
    const Values back = decoded(codec_, wire, in.size(), binding_.memory);
    std::size_t failures = 0;
    for (std::size_t first = 0; first < in.size() && failures < 5; first += block_) {
      const std::size_t last = std::min(first + block_, in.size());
      float absmax = 0;
      bool finite = true;
      for (std::size_t i = first; i < last; ++i) {
        absmax = std::max(absmax, std::fabs(in[i]));
        finite = finite && std::isfinite(in[i]);
      }
      for (std::size_t i = first; i < last; ++i) {
        const bool overflows = may_overflow(absmax) && is_canonical_nan(wide, back, i);
        const bool good = finite || !binding_.scaled()
                              ? overflows || value_is_faithful(in, wide, back, i, absmax)
                              : is_canonical_nan(wide, back, i);
        if (good) continue;
        ADD_FAILURE() << codec_.name() << ": element " << i << " is " << in[i] << ", absmax "
                      << absmax << ", decoded " << wide[i] << " and " << back[i];
        if (++failures == 5) break;
      }
    }
  }

 private:
  /// A range or a rotation that overflows makes its block one that is not finite.
  [[nodiscard]] bool may_overflow(float absmax) const {
    return (binding_.has("asym") && absmax > 0x1.FDp126F) ||
           (binding_.has("had32") && absmax > 0x1p119F);
  }
  static bool is_canonical_nan(const Values& wide, const Values& back, std::size_t i) {
    return wide.bits(i) == kCanonicalNan32 && back.bits(i) == canonical_nan(back.dtype());
  }

  bool value_is_faithful(const Values& in, const Values& wide, const Values& back, std::size_t i,
                         float absmax) {
    const float x = in[i];
    if (std::isnan(x)) {
      // Only bits that are copied may keep a payload.
      const bool copied = codec_.wire_bytes(1024) == 1024 * size_of(in.dtype()) &&
                          back.bits(i) == in.bits(i) && std::isnan(wide[i]);
      return copied || is_canonical_nan(wide, back, i);
    }
    if (std::isinf(x)) return wide[i] == x && back[i] == x;
    const double bound = codec_.error_bound(x, absmax);
    const double error = std::fabs(double{x} - double{wide[i]});
    const double error_back = std::fabs(double{x} - double{back[i]});
    return std::isfinite(wide[i]) && std::isfinite(back[i]) && error <= bound &&
           error_back <= bound + half_ulp(wide[i], back.dtype());
  }
};

std::vector<std::uint32_t> shuffled_patterns(bool shuffle) {
  std::vector<std::uint32_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), 0U);
  if (shuffle) std::shuffle(patterns.begin(), patterns.end(), std::mt19937(11));
  return patterns;
}

TEST_P(EveryCodec, KeepsItsBoundOnAllSixteenBitPatterns) {
  for (const bool shuffle : {false, true}) {
    const auto patterns = shuffled_patterns(shuffle);
    Values values(patterns.size(), binding_.memory);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      // In fp32 memory: the same values as bf16 patterns, widened.
      values.set_bits(i, binding_.memory == Dtype::fp32 ? patterns[i] << 16U : patterns[i]);
    }
    expect_faithful(values);
  }
}

TEST_P(EveryCodec, KeepsItsBoundOnFinitePatternsInFiniteBlocks) {
  // All finite patterns sorted by magnitude: neighbours share a block, none is drowned by a NaN.
  std::vector<float> finite;
  for (std::uint32_t magnitude = 0; magnitude < 0x8000U; ++magnitude) {
    const float x = binding_.memory == Dtype::fp16
                        ? to_float(Fp16{static_cast<std::uint16_t>(magnitude)})
                        : to_float(Bf16{static_cast<std::uint16_t>(magnitude)});
    if (std::isfinite(x)) finite.insert(finite.end(), {x, -x});
  }
  expect_faithful(Values(finite, binding_.memory));
}

TEST_P(EveryCodec, KeepsItsBoundOnRandomBlocksOfAnyLength) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{31}, block_ - 1, block_,
                              block_ + 1, 3 * block_ + 7, std::size_t{10007}}) {
    expect_faithful(Values(random_values(n, static_cast<std::uint32_t>(n)), binding_.memory));
  }
}

TEST_P(EveryCodec, HandlesBlocksWithRulesOfTheirOwn) {
  using Limits = std::numeric_limits<float>;
  constexpr float tiny = Limits::min();
  const std::vector<std::vector<float>> heads = {
      {Limits::quiet_NaN(), 1},
      {-Limits::quiet_NaN(), 1},
      {Limits::infinity(), 1, -1},
      {-Limits::infinity(), Limits::infinity()},
      {0.0F, -0.0F},
      {-0.0F},
      {tiny / 2, -tiny / 4},
      {Limits::denorm_min()},
      {127 * tiny, tiny, -tiny},
      {7 * tiny, tiny},
      {126.9F * tiny, tiny},
      {6.99F * tiny, tiny},
      {Limits::max(), -Limits::max(), 1},
      {-Limits::max(), Limits::max() / 2},
      {65504.0F, -65504.0F, 65519.0F},
      {127, 0.5F, 1.5F, -2.5F},
      {7, 0.5F, 1.5F, -2.5F},
  };
  const std::size_t width = std::max(block_, std::size_t{4});
  std::vector<float> values(heads.size() * width, 0.0F);
  for (std::size_t row = 0; row < heads.size(); ++row) {
    std::copy(heads[row].begin(), heads[row].end(),
              values.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  expect_faithful(Values(values, binding_.memory));
}

TEST_P(EveryCodec, NonFiniteValuesReachEveryReader) {
  Values in(random_values(2 * block_ + 5, 3), binding_.memory);
  const std::size_t poisoned = block_ + block_ / 2;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    in.set(poisoned, bad);
    const Wire wire = encoded(codec_, in);
    const std::size_t n = in.size();
    std::vector<float> sum(n, 1.0F);
    codec_.decode_add(wire.images(), n, n, sum.data(), {});
    EXPECT_FALSE(std::isfinite(sum[poisoned]));
    codec_.decode_reduce(wire.images(), 1, n, n, sum.data(), {});
    EXPECT_FALSE(std::isfinite(sum[poisoned]));
    if (std::isnan(sum[poisoned])) {
      EXPECT_EQ(bits_of(sum[poisoned]), kCanonicalNan32);
    }
    EXPECT_FALSE(std::isfinite(decoded(codec_, wire, n, binding_.memory)[poisoned]));
  }
}

TEST_P(EveryCodec, SumsWriteOnlyTheCanonicalNan) {
  const std::size_t n = block_ + 3;
  const Wire wire = encoded(codec_, Values(std::vector<float>(n, 1.0F), binding_.memory));
  // A NaN that was there before, with sign and payload.
  std::vector<float> sum(n, float_of(0xFFC12345U));
  codec_.decode_add(wire.images(), n, n, sum.data(), {});
  for (const float value : sum) ASSERT_EQ(bits_of(value), kCanonicalNan32);

  // Infinity less infinity, where infinities travel: x86 makes a negative NaN of it.
  const float infinity = std::numeric_limits<float>::infinity();
  Wire opposite(codec_, n, 2);
  Values values(std::vector<float>(2 * n, infinity), binding_.memory);
  for (std::size_t i = n; i < 2 * n; ++i) values.set(i, -infinity);
  codec_.encode(values.view(), {2, n, 1, 0, n, n}, opposite.images(), {});
  codec_.decode_reduce(opposite.images(), 2, n, n, sum.data(), {});
  for (const float value : sum) ASSERT_EQ(bits_of(value), kCanonicalNan32);
}

TEST_P(EveryCodec, WireSizeIsExactAndEveryByteIsWritten) {
  const codec::FormatInfo& info = binding_.info();
  const std::size_t bits =
      binding_.spec.format == "none" ? 8 * size_of(binding_.memory) : info.bits;
  const auto padded = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, block_, block_ + 1,
                              9 * block_ - 1, std::size_t{5003}}) {
    const std::size_t blocks = (n + block_ - 1) / block_;
    EXPECT_EQ(codec_.wire_bytes(n), padded((blocks * block_ * bits + 7) / 8) +
                                        padded(blocks * codec_.scale_bytes()) +
                                        (codec_.scales_images() && n > 0 ? 16 : 0));
    const Values in(random_values(n, 5), binding_.memory);
    // Whatever was there before, the image is the same: no byte is left out.
    EXPECT_EQ(encoded(codec_, in, 0xA5).image(), encoded(codec_, in, 0x5A).image());
  }
  EXPECT_EQ(codec_.wire_bytes(0), 0U);
}

TEST_P(EveryCodec, DecodeWritesExactlyItsValues) {
  const std::size_t n = block_ + 13;
  const Wire wire = encoded(codec_, Values(random_values(n, 6), binding_.memory));
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Values want = decoded(codec_, wire, n, dtype);
    Values larger(n + 2, dtype);
    const std::uint32_t poison = larger.bits(0);
    codec_.decode(wire.images(), Layout::contiguous(n), larger.view().part(1, n), {});
    EXPECT_EQ(larger.bits(0), poison);
    EXPECT_EQ(larger.bits(n + 1), poison);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(larger.bits(i + 1), want.bits(i));
  }
}

TEST_P(EveryCodec, DecodeOntoAddsTheDecodedValues) {
  const std::size_t n = 2 * block_ + 13;
  const Wire wire = encoded(codec_, Values(random_values(n, 8), binding_.memory));
  const Values more = decoded(codec_, wire, n, Dtype::fp32);
  std::vector<float> before = random_values(n, 9);
  before[3] = INFINITY;
  before[7] = NAN;
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Values copy(before, dtype);
    std::vector<float> sums(n);
    for (std::size_t i = 0; i < n; ++i) sums[i] = (std::isfinite(copy[i]) ? copy[i] : 0) + more[i];
    const Values want(sums, dtype);
    std::vector<float> framed{1.0F};
    framed.insert(framed.end(), before.begin(), before.end());
    framed.push_back(2.0F);
    Values larger(framed, dtype);
    codec_.decode_onto(wire.images(), Layout::contiguous(n), larger.view().part(1, n), {});
    EXPECT_EQ(larger[0], 1.0F);
    EXPECT_EQ(larger[n + 1], 2.0F);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(larger.bits(i + 1), want.bits(i)) << i;
  }
}

TEST_P(EveryCodec, SumsAreThoseOfTheDecodedValuesInOrder) {
  constexpr std::size_t images = 5;
  const std::size_t n = 2 * block_ + 11;
  Wire wire(codec_, n, images);
  std::vector<Values> parts;
  for (std::size_t image = 0; image < images; ++image) {
    // Moderate magnitudes: no product or sum leaves fp32's range, so addition of decoded values
    // is the definition.
    std::mt19937 engine(static_cast<std::uint32_t>(image));
    std::normal_distribution<float> normal(0, std::ldexp(1.0F, 3 * static_cast<int>(image) - 6));
    std::vector<float> values(n);
    for (float& value : values) value = normal(engine);
    const Values part(values, binding_.memory);
    codec::WireImages one = wire.images();
    one.data += image * one.stride;
    codec_.encode(part.view(), Layout::contiguous(n), one, {});
    parts.push_back(Values(n, Dtype::fp32));
    codec_.decode(one, Layout::contiguous(n), parts.back().view(), {});
  }
  EXPECT_TRUE(wire.guards_intact());
  for (const std::size_t wanted : {n, n - 5, std::size_t{1}, std::size_t{0}}) {
    std::vector<float> sum(wanted + 1, -7.0F);
    codec_.decode_reduce(wire.images(), images, n, wanted, sum.data(), {});
    std::vector<float> added(wanted + 1, 0.25F);
    codec_.decode_add(wire.images(), n, wanted, added.data(), {});
    for (std::size_t i = 0; i < wanted; ++i) {
      float expected = 0;
      for (const Values& part : parts) expected += part[i];
      ASSERT_EQ(bits_of(added[i]), bits_of(0.25F + parts[0][i])) << i;
      if (binding_.has("had32")) {
        // Summed before the rotation back: equal but for the roundings of both.
        double magnitudes = 0;
        for (const Values& part : parts) magnitudes += std::fabs(double{block_absmax(part, 32, i)});
        ASSERT_NEAR(sum[i], expected, magnitudes * 0x1p-18) << i;
      } else {
        ASSERT_EQ(bits_of(sum[i]), bits_of(expected)) << i;
      }
    }
    EXPECT_EQ(sum[wanted], -7.0F);
    EXPECT_EQ(added[wanted], 0.25F);
  }
}

TEST_P(EveryCodec, StridedLayoutsEqualPackingByHand) {
  const std::size_t padded_block = std::max(block_, std::size_t{16});
  // Slices of whole blocks, and slices that straddle blocks.
  for (const std::size_t padded : {2 * padded_block, padded_block + 10}) {
    const Layout layout{3, 7 * padded + 5, 2, 3 * padded + 1, padded - 9, padded};
    const std::size_t count = 2 * layout.image_stride + layout.slice_stride + layout.length;
    const Values memory(random_values(count, 9), binding_.memory);
    const std::size_t n = layout.wire_elements();
    Wire wire(codec_, n, layout.images);
    codec_.encode(memory.view(), layout, wire.images(), {}, {.slice_step = padded});
    EXPECT_TRUE(wire.guards_intact());

    Values back(count, binding_.memory);
    const Values untouched(count, binding_.memory);
    codec_.decode(wire.images(), layout, back.view(), {});
    std::vector<bool> written(count, false);
    for (std::size_t image = 0; image < layout.images; ++image) {
      Values packed(n, binding_.memory);
      for (std::size_t i = 0; i < n; ++i) packed.set_bits(i, 0);
      const auto place = [&](std::size_t slice, std::size_t e) {
        return image * layout.image_stride + slice * layout.slice_stride + e;
      };
      for (std::size_t slice = 0; slice < layout.slices; ++slice) {
        for (std::size_t e = 0; e < layout.length; ++e) {
          packed.set_bits(slice * padded + e, memory.bits(place(slice, e)));
        }
      }
      const Wire by_hand = encoded(codec_, packed);
      ASSERT_EQ(wire.image(image), by_hand.image());
      const Values values = decoded(codec_, by_hand, n, binding_.memory);
      for (std::size_t slice = 0; slice < layout.slices; ++slice) {
        for (std::size_t e = 0; e < layout.length; ++e) {
          ASSERT_EQ(back.bits(place(slice, e)), values.bits(slice * padded + e));
          written[place(slice, e)] = true;
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!written[i]) {
        ASSERT_EQ(back.bits(i), untouched.bits(i)) << "decode wrote a gap";
      }
    }
  }
}

TEST_P(EveryCodec, RoundingEncodesFp32AsMemoryOfItsDtype) {
  const Codec rounding = codec_.rounding();
  EXPECT_EQ(rounding.name(), codec_.name());
  const std::size_t wide = std::max(block_, std::size_t{16});
  std::vector<Layout> layouts = {{3, 7 * wide + 75, 2, 3 * wide + 31, wide + 1, wide + 10}};
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, block_ - 1, 11 * wide + 7}) {
    layouts.push_back(Layout::contiguous(n));
  }
  for (const Layout& layout : layouts) {
    const std::size_t count = (layout.images - 1) * layout.image_stride +
                              (layout.slices - 1) * layout.slice_stride + layout.length;
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      const std::vector<float> values = hostile_values(count, block_, seed);
      const std::size_t n = layout.wire_elements();
      Wire wanted(codec_, n, layout.images);
      Wire wire(codec_, n, layout.images);
      const codec::Draw draw{.key = 7, .slice_step = layout.padded};
      codec_.encode(Values(values, binding_.memory).view(), layout, wanted.images(), {}, draw);
      rounding.encode(Values(values, Dtype::fp32).view(), layout, wire.images(), {}, draw);
      for (std::size_t image = 0; image < layout.images; ++image) {
        ASSERT_EQ(wire.image(image), wanted.image(image)) << codec_.name() << ", seed " << seed;
      }
      EXPECT_TRUE(wire.guards_intact());
      // Values that are in the memory dtype are not rounded again.
      Wire same(codec_, n, layout.images);
      rounding.encode(Values(values, binding_.memory).view(), layout, same.images(), {}, draw);
      ASSERT_EQ(same.image(0), wanted.image(0));
    }
  }
}

/// A part of an image that is dense: a plane of the payload, or the scales.
struct Part {
  std::size_t offset;
  std::size_t bytes;
};

/// The parts of an image of `blocks` blocks. A payload of b bits per value has a plane for each
/// power of two in the binary form of b, the widest first; casts and widths of one power have one
/// plane.
std::vector<Part> parts_of(std::size_t bits, std::size_t scale_bytes, std::size_t block,
                           std::size_t blocks) {
  std::vector<Part> parts;
  std::size_t offset = 0;
  for (std::size_t width = std::bit_floor(bits); width > 0; width /= 2) {
    if ((bits & width) == 0) continue;
    parts.push_back({offset, blocks * block * width / 8});
    offset += parts.back().bytes;
  }
  parts.push_back({(offset + 15) / 16 * 16, blocks * scale_bytes});
  return parts;
}

TEST_P(EveryCodec, ChunksOfWholeBlocksHaveTheBytesOfTheWhole) {
  // Collectives never cut what shares a scale: `collective_registry`.
  if (codec_.scales_images()) return;
  const codec::FormatInfo& info = binding_.info();
  const std::size_t bits =
      binding_.spec.format == "none" ? 8 * size_of(binding_.memory) : info.bits;
  const std::size_t chunk = 8 * std::max(block_, std::size_t{2});
  const std::size_t n = 3 * chunk + chunk / 2 + 3;
  const Values in(random_values(n, 13), binding_.memory);
  const std::vector<std::byte> whole = encoded(codec_, in).image();
  const std::size_t scale_bytes = codec_.scale_bytes();
  const auto blocks_of = [&](std::size_t count) { return (count + block_ - 1) / block_; };
  std::vector<Part> left = parts_of(bits, scale_bytes, block_, blocks_of(n));
  for (std::size_t first = 0; first < n; first += chunk) {
    const std::size_t count = std::min(chunk, n - first);
    Wire wire(codec_, count);
    codec_.encode(ConstView(in.view()).part(first, count), Layout::contiguous(count), wire.images(),
                  {}, {.first = first});
    const std::vector<std::byte> image = wire.image();
    const std::vector<Part> parts = parts_of(bits, scale_bytes, block_, blocks_of(count));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ASSERT_LE(parts[i].bytes, left[i].bytes);
      EXPECT_TRUE(std::equal(image.data() + parts[i].offset,
                             image.data() + parts[i].offset + parts[i].bytes,
                             whole.data() + left[i].offset));
      left[i].offset += parts[i].bytes;
      left[i].bytes -= parts[i].bytes;
    }
  }
  for (const Part& part : left) EXPECT_EQ(part.bytes, 0U);
}

TEST_P(EveryCodec, MemoryOutsideTheViewIsRefused) {
  Values in(100, binding_.memory);
  Wire wire(codec_, 101);
  EXPECT_THROW(codec_.encode(in.view(), Layout::contiguous(101), wire.images(), {}),
               std::logic_error);
  EXPECT_THROW(codec_.decode(wire.images(), Layout::contiguous(101), in.view(), {}),
               std::logic_error);
  View device = in.view();
  device.kind = MemoryKind::device;
  EXPECT_THROW(codec_.encode(device, Layout::contiguous(100), wire.images(), {}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodec, testing::ValuesIn(all_bindings()),
                         [](const auto& binding) { return label_of(binding); });

}  // namespace
}  // namespace zeropp::test
