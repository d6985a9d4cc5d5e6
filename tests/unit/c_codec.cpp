// ctest: name=c_codec labels=sanitize link=zeropp_c
// The codecs of the C interface: it names exactly the codecs of the library, and every codec gives
// the bytes of the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/c/zeropp.h"
#include "lib/collective/chunks.hpp"
#include "lib/collective/collective.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::c {
namespace {

using test::Poisoned;

std::vector<std::string> words(const char* kind) {
  std::istringstream text(zpp_names(kind));
  std::vector<std::string> found;
  for (std::string word; text >> word;) found.push_back(word);
  return found;
}

zpp_dtype code_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? ZPP_FP32 : dtype == Dtype::bf16 ? ZPP_BF16 : ZPP_FP16;
}

void verify(const char* name, Dtype dtype, std::size_t count) {
  SCOPED_TRACE(std::string(name) + " " + std::string(zeropp::name_of(dtype)) + " " +
               std::to_string(count));
  const codec::Codec codec(codec::parse_codec(name), dtype);
  std::size_t bytes = 0;
  ASSERT_EQ(zpp_image_bytes(name, code_of(dtype), count, &bytes), ZPP_OK) << zpp_last_error();
  ASSERT_EQ(bytes, codec.wire_bytes(count));

  Poisoned values(count, dtype);
  for (std::size_t e = 0; e < count; ++e) {
    test::store(values.view, e, test::value_of(dtype, 0, e));
  }
  const codec::Layout layout = collective::padded_layout(count, codec.block());
  // Images begin at multiples of 16: so does what operator new gives.
  std::vector<std::byte> wanted(bytes, std::byte{0xA5});
  std::vector<std::byte> image(bytes, std::byte{0x5A});
  codec.encode(values.view, layout, {wanted.data(), bytes}, {});
  ASSERT_EQ(
      zpp_encode(name, code_of(dtype), ZPP_HOST, values.bytes.data(), count, image.data(), nullptr),
      ZPP_OK)
      << zpp_last_error();
  ASSERT_EQ(image, wanted);

  Poisoned decoded(count, dtype);
  Poisoned again(count, dtype);
  codec.decode({wanted.data(), bytes}, layout, decoded.view, {});
  ASSERT_EQ(
      zpp_decode(name, code_of(dtype), ZPP_HOST, image.data(), count, again.bytes.data(), nullptr),
      ZPP_OK)
      << zpp_last_error();
  ASSERT_EQ(again.bytes, decoded.bytes);
}

TEST(CCodec, ImagesAreTheLibrarys) {
  std::vector<std::string> names = words("codecs");
  EXPECT_THAT(names, testing::IsSupersetOf({"none", "int8", "int4", "fp8e4m3"}));
  names.insert(names.end(), {"int4:128+had32", "int8:64", "int6:64+asym+s32"});
  for (const std::string& name : names) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      for (const std::size_t count : {1U, 256U, 5003U}) {
        ASSERT_NO_FATAL_FAILURE(verify(name.c_str(), dtype, count));
      }
    }
  }
}

TEST(CCodec, NamesAreTheRegistries) {
  EXPECT_EQ(words("codecs").size(), codec::formats().size());
  EXPECT_EQ(words("all_gather").size(), collective::all_gather_algorithms().size());
  EXPECT_EQ(words("reduce_scatter").size(), collective::reduce_scatter_algorithms().size());
  EXPECT_EQ(words("devices").front(), "host");
  EXPECT_EQ(zpp_names("optimizers"), nullptr);
  EXPECT_EQ(zpp_names(nullptr), nullptr);
  EXPECT_EQ(zpp_abi_version(), ZPP_ABI_VERSION);
  EXPECT_THAT(zpp_version(), testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
}

TEST(CCodec, WhatCannotBeIsRefused) {
  std::size_t bytes = 7;
  std::vector<float> values(64);
  std::vector<std::byte> image(4096);
  EXPECT_EQ(zpp_image_bytes("int9", ZPP_FP32, 64, &bytes), ZPP_USAGE);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("int9"));
  EXPECT_EQ(bytes, 7U);
  EXPECT_EQ(zpp_image_bytes(nullptr, ZPP_FP32, 64, &bytes), ZPP_USAGE);
  EXPECT_EQ(zpp_image_bytes("int8", ZPP_FP32, 64, nullptr), ZPP_USAGE);
  EXPECT_EQ(zpp_encode("int8", ZPP_FP32, ZPP_HOST, values.data(), 64, image.data() + 1, nullptr),
            ZPP_USAGE);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("multiple of 16"));
  EXPECT_EQ(zpp_decode("int8", ZPP_FP32, ZPP_HOST, nullptr, 64, values.data(), nullptr), ZPP_USAGE);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("image is NULL"));
  EXPECT_EQ(zpp_encode("int8", static_cast<zpp_dtype>(3), ZPP_HOST, values.data(), 64, image.data(),
                       nullptr),
            ZPP_USAGE);
}

}  // namespace
}  // namespace zeropp::c
