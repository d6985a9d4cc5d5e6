// ctest: name=contract1_codec_reduce_encode labels=sanitize
// decode_reduce_encode of every pair of formats: whatever path it takes, its bytes equal the bytes
// of decode_reduce followed by encode.
#include <gtest/gtest.h>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;
using codec::ReduceEncode;

class EveryPair : public testing::TestWithParam<Pair> {};

TEST_P(EveryPair, EqualsReduceThenEncode) {
  const Codec from(GetParam().from, Dtype::fp32);
  const Codec to(GetParam().to, Dtype::fp32);
  const ReduceEncode operation(from, to);
  struct Shape {
    std::size_t images, slices, padded;
  };
  const std::size_t block = std::max(from.block(), to.block());
  for (const Shape& shape : {Shape{4, 3, block}, Shape{3, 2, 2 * block}, Shape{1, 1, block + 17},
                             Shape{2, 3, 77}, Shape{2, 2, 1}, Shape{2, 3, 0}, Shape{5, 1, 32}}) {
    const std::size_t n = shape.slices * shape.padded;
    Wire in(from, n, shape.images);
    std::vector<float> values = random_values(shape.images * n, 21);
    if (n > 64) {
      values[n / 3] = std::numeric_limits<float>::quiet_NaN();
      values[n - 1] = std::numeric_limits<float>::infinity();
      values[40] = std::numeric_limits<float>::max();
    }
    from.encode(ConstView::of(values.data(), values.size()), {shape.images, n, 1, 0, n, n},
                in.images(), {});

    Wire out(to, shape.padded, shape.slices);
    std::vector<float> scratch(operation.scratch_elements(shape.slices, shape.padded), -1.0F);
    operation.run(in.images(), shape.images, shape.slices, shape.padded, out.images(),
                  scratch.data(), {});
    EXPECT_TRUE(out.guards_intact());

    std::vector<float> sum(n + 1);
    from.decode_reduce(in.images(), shape.images, n, n, sum.data(), {});
    for (std::size_t slice = 0; slice < shape.slices; ++slice) {
      Wire want(to, shape.padded);
      to.encode(ConstView::of(sum.data() + slice * shape.padded, shape.padded),
                Layout::contiguous(shape.padded), want.images(), {});
      ASSERT_EQ(out.image(slice), want.image())
          << operation.path() << ", " << shape.images << " images, slice " << slice << " of "
          << shape.slices << " x " << shape.padded;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPair, testing::ValuesIn(all_pairs()),
                         [](const auto& pair) { return label_of(pair); });

TEST(FusedPairs, AreTheIntegersOfTheTwoHops) {
  const auto path = [](const char* from, const char* to) {
    return ReduceEncode(Codec(codec::parse_codec(from), Dtype::fp32),
                        Codec(codec::parse_codec(to), Dtype::fp32))
        .path();
  };
  EXPECT_EQ(path("int8", "int8"), "fused");
  EXPECT_EQ(path("int8", "int4"), "fused");
  EXPECT_EQ(path("int4", "int4:64"), "fused");
  EXPECT_EQ(path("int4:128", "int8:256"), "fused");
  EXPECT_EQ(path("int8", "int6"), "composed");
  EXPECT_EQ(path("none", "none"), "composed");
}

}  // namespace
}  // namespace zeropp::test
