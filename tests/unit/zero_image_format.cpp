// ctest: name=zero_image_format timeout=60 labels=sanitize
// Which codecs an update can write images in.
#include <gtest/gtest.h>

#include "kernels/codec/codec.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {
namespace {

TEST(ImageFormat, IsOfPlainIntegersOfFourAndEightBitsInBlocksOfATile) {
  for (const char* name : {"int8", "int4", "int8:32", "int8:1024", "int4:64", "int4:512"}) {
    const codec::CodecSpec spec = codec::parse_codec(name);
    const auto format = image_format(spec, Dtype::bf16);
    ASSERT_TRUE(format.has_value()) << name;
    EXPECT_EQ(format->bits, spec.format == "int8" ? 8U : 4U) << name;
    EXPECT_EQ(format->block, codec::Codec(spec, Dtype::bf16).block()) << name;
    EXPECT_EQ(format->rounded, Dtype::bf16) << name;
    EXPECT_EQ(codec::Codec(spec, Dtype::bf16).scale_bytes(), optim::kImageScaleBytes) << name;
    EXPECT_EQ(optim::kImageTile % format->block, 0U) << name;
  }
  for (const char* name : {"none", "bf16", "int8:2048", "int4:8192", "int6:128", "int8:256+sr",
                           "int4:128+had32", "fp8e4m3:128", "mxfp4", "nvfp4"}) {
    EXPECT_FALSE(image_format(codec::parse_codec(name), Dtype::bf16).has_value()) << name;
  }
}

}  // namespace
}  // namespace zeropp::zero
