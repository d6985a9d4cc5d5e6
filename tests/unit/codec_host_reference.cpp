// ctest: name=contract1_codec_host_reference timeout=240 labels=sanitize
// The host's integer codecs, bit for bit, beside loops over single values: every count around the
// widths of vectors and blocks, memory off every alignment, blocks with NaN, infinities and zeros.
#include <gtest/gtest.h>

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

template <class Format>
class HostReference : public testing::Test {
 protected:
  /// The image of the values by the rule of the format, value by value.
  static std::vector<std::byte> image_of(const Values& values, std::size_t block,
                                         const Codec& codec) {
    const std::size_t blocks = (values.size() + block - 1) / block;
    std::vector<std::byte> image(codec.wire_bytes(values.size()));
    const std::size_t scales = (blocks * block * Format::bits / 8 + 15) / 16 * 16;
    for (std::size_t index = 0; index < blocks; ++index) {
      const auto value = [&](std::size_t i) {
        return index * block + i < values.size() ? values[index * block + i] : 0.0F;
      };
      float absmax = 0;
      bool finite = true;
      for (std::size_t i = 0; i < block; ++i) {
        finite = finite && std::isfinite(value(i));
        absmax = std::max(absmax, std::fabs(value(i)));
      }
      const auto scale = finite ? Format::scale_of(absmax) : Format::non_finite_scale();
      std::memcpy(image.data() + scales + index * sizeof(scale), &scale, sizeof(scale));
      for (std::size_t i = 0; finite && i < block; ++i) {
        const std::size_t bit = (index * block + i) * Format::bits;
        const auto code =
            static_cast<std::uint8_t>(Format::encode(value(i), Format::reciprocal(scale)));
        const unsigned field = code & ((1U << Format::bits) - 1U);
        image[bit / 8] |= static_cast<std::byte>(field << (bit % 8));
      }
    }
    return image;
  }

  struct Read {
    typename Format::Code code;
    float scale;
  };
  static Read read(const std::vector<std::byte>& image, std::size_t block, std::size_t blocks,
                   std::size_t i) {
    const std::size_t scales = (blocks * block * Format::bits / 8 + 15) / 16 * 16;
    typename Format::Scale stored;
    std::memcpy(&stored, image.data() + scales + i / block * sizeof(stored), sizeof(stored));
    const std::size_t bit = i * Format::bits;
    const unsigned field =
        (std::to_integer<unsigned>(image[bit / 8]) >> (bit % 8)) & ((1U << Format::bits) - 1U);
    const int code = static_cast<int>(field << (32 - Format::bits)) >> (32 - Format::bits);
    return {static_cast<typename Format::Code>(code), Format::scale_value(stored)};
  }

  static Values inputs(std::size_t n, std::size_t block, Dtype dtype, std::mt19937& engine) {
    // One value more, so that a view may begin off the alignment of vectors.
    std::vector<float> values = random_values(n + 1, static_cast<std::uint32_t>(engine()));
    using Limits = std::numeric_limits<float>;
    for (std::size_t first = 1; first < values.size(); first += block) {
      const std::size_t count = std::min(block, values.size() - first);
      float& one = values[first + engine() % count];
      switch (engine() % 8) {
        case 0:
          one = Limits::quiet_NaN();
          break;
        case 1:
          one = -Limits::infinity();
          break;
        case 2:
          one = Limits::max();
          break;
        case 3:
          std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(first), count, -0.0F);
          break;
        default:
          break;
      }
    }
    return {values, dtype};
  }

  static void compare(std::size_t n, std::size_t block, Dtype dtype, std::mt19937& engine) {
    const Codec codec({std::string(Format::name), block, {}}, dtype);
    const std::size_t blocks = (n + block - 1) / block;
    const Values values = inputs(n, block, dtype, engine);
    Values packed(n, dtype);
    for (std::size_t i = 0; i < n; ++i) packed.set_bits(i, values.bits(i + 1));

    Wire wire(codec, n);
    codec.encode(ConstView(values.view()).part(1, n), Layout::contiguous(n), wire.images(), {});
    ASSERT_TRUE(wire.guards_intact());
    const std::vector<std::byte> image = wire.image();
    ASSERT_EQ(image, image_of(packed, block, codec)) << codec.name() << ", " << n << " values";

    Values back(n + 2, dtype);
    const std::uint32_t poison = back.bits(0);
    codec.decode(wire.images(), Layout::contiguous(n), back.view().part(1, n), {});
    ASSERT_EQ(back.bits(0), poison);
    ASSERT_EQ(back.bits(n + 1), poison);
    std::vector<float> sum(n + 2, 1.5F);
    codec.decode_add(wire.images(), n, n, sum.data() + 1, {});
    ASSERT_EQ(sum.front() + sum.back(), 3.0F);
    Values want(1, dtype);
    for (std::size_t i = 0; i < n; ++i) {
      const Read wired = read(image, block, blocks, i);
      want.set(0, Format::decode(wired.code, wired.scale));
      ASSERT_EQ(back.bits(i + 1), want.bits(0)) << codec.name() << ", " << i << " of " << n;
      const float added = saturating_cast<float>(Format::accumulate(wired.code, wired.scale, 1.5F));
      ASSERT_EQ(bits_of(sum[i + 1]), bits_of(added)) << codec.name() << ", " << i << " of " << n;
    }
  }
};

using ReferenceFormats = testing::Types<codec::format::int4::Format, codec::format::int8::Format>;
TYPED_TEST_SUITE(HostReference, ReferenceFormats);

TYPED_TEST(HostReference, HasTheBytesAndValuesOfSingleValues) {
  std::mt19937 engine(31);
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (std::size_t n = 0; n <= 140; ++n) this->compare(n, 32, dtype, engine);
    for (std::size_t block = 32; block <= 8192; block *= 2) {
      for (const std::size_t n : {block - 1, block, block + 1, 2 * block + 15, 3 * block - 17,
                                  std::size_t{1}, 4096 + block + engine() % 100}) {
        this->compare(n, block, dtype, engine);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::test
