// ctest: name=contract1_codec_host_chunks timeout=180 labels=sanitize
// The host's vectors beside the scalar functions that they stand for: every stored scale, every
// 16-bit pattern, sums of any number of images, memory off every alignment.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/codec/host_chunk.hpp"

namespace zeropp::test {
namespace {

using codec::Floats;
using codec::kLanes;
using codec::Words;

constexpr int kValues = codec::Quad::kValues;

/// kValues values off the alignment of vectors, between guards; every byte `poison` at first.
template <class T>
struct Row {
  static constexpr int kGuard = 3;
  std::array<T, kValues + 2 * kGuard> all;
  explicit Row(int poison) { std::memset(all.data(), poison, sizeof(all)); }
  T* data() { return all.data() + kGuard; }
};
/// Whether `got`, which a vector wrote, is what scalars wrote, guards included.
template <class T>
bool same_bytes(const Row<T>& got, const Row<T>& want) {
  using Bytes = std::array<std::byte, sizeof(got.all)>;
  return std::bit_cast<Bytes>(got.all) == std::bit_cast<Bytes>(want.all);
}

template <class Format>
class HostChunks : public testing::Test {
 protected:
  using Vectors = codec::IntegerChunk<Format>;
  using Scalars = codec::PlainChunk<Format, kValues>;
  static_assert(std::is_same_v<codec::HostChunk<Format>, Vectors>);
  static constexpr std::size_t kBytes = kValues * Format::bits / 8;

  template <class Memory>
  static void compare_encode(const std::vector<float>& values, float reciprocal) {
    Row<Memory> in(0);
    for (int i = 0; i < kValues; ++i) in.data()[i] = saturating_cast<Memory>(values[i]);
    Row<std::uint8_t> got(0xA5);
    Row<std::uint8_t> want(0xA5);
    Vectors::encode(in.data(), reciprocal, got.data());
    Scalars::encode(in.data(), reciprocal, want.data());
    ASSERT_TRUE(same_bytes(got, want)) << "1 / scale " << reciprocal;
  }

  template <class Memory>
  static void compare_decode(const std::uint8_t* payload, float scale) {
    Row<Memory> got(0xA5);
    Row<Memory> want(0xA5);
    Vectors::decode(payload, scale, got.data());
    Scalars::decode(payload, scale, want.data());
    ASSERT_TRUE(same_bytes(got, want)) << "scale " << scale;
  }
};

using ChunkFormats = testing::Types<codec::format::int4::Format, codec::format::int8::Format>;
TYPED_TEST_SUITE(HostChunks, ChunkFormats);

TYPED_TEST(HostChunks, EncodeBlocksOfEveryScale) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> part(-1.0F, 1.0F);
  const std::uint32_t last = TypeParam::scale_of(kLargestFinite32).bits;
  for (std::uint32_t bits = 0x0080U; bits <= last; ++bits) {
    const Bf16 scale{static_cast<std::uint16_t>(bits)};
    const float step = to_float(scale);
    const float largest = std::min(step * TypeParam::qmax, kLargestFinite32);
    std::vector<float> values(kValues);
    for (float& value : values) {
      value = engine() % 4 == 0 ? (std::floor(part(engine) * TypeParam::qmax) + 0.5F) * step
                                : part(engine) * largest;
      if (!(std::fabs(value) <= largest)) value = std::copysign(largest, value);
    }
    const float reciprocal = TypeParam::reciprocal(scale);
    TestFixture::template compare_encode<float>(values, reciprocal);
    // In 16-bit memory: towards zero, so that no value leaves the block's range.
    for (float& value : values)
      value = to_float(Bf16{static_cast<std::uint16_t>(bits_of(value) >> 16U)});
    TestFixture::template compare_encode<Bf16>(values, reciprocal);
    if (largest >= 65504.0F) continue;
    for (float& value : values) value = to_float(saturating_cast<Fp16>(value * 0.5F));
    if (step > 0x1p-13F) TestFixture::template compare_encode<Fp16>(values, reciprocal);
  }
}

TYPED_TEST(HostChunks, EncodeZeros) {
  const std::vector<float> zeros(kValues, -0.0F);
  TestFixture::template compare_encode<float>(zeros, 0.0F);
  TestFixture::template compare_encode<Bf16>(zeros, 0.0F);
  TestFixture::template compare_encode<Fp16>(zeros, 0.0F);
  // Beyond zero in memory, but flushed on the wire.
  const std::vector<float> flushed(kValues, 0x1p-130F);
  TestFixture::template compare_encode<float>(flushed, 0.0F);
}

TYPED_TEST(HostChunks, DecodeWithEveryStoredScale) {
  std::mt19937 engine(2);
  Row<std::uint8_t> payload(0);
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    for (std::size_t i = 0; i < TestFixture::kBytes; ++i) {
      payload.data()[i] = static_cast<std::uint8_t>(engine());
    }
    payload.data()[bits % TestFixture::kBytes] = bits % 2 == 0 ? 0x88 : 0x7F;  // the extremes
    const float scale = TypeParam::scale_value(Bf16{static_cast<std::uint16_t>(bits)});
    TestFixture::template compare_decode<float>(payload.data(), scale);
    TestFixture::template compare_decode<Bf16>(payload.data(), scale);
    TestFixture::template compare_decode<Fp16>(payload.data(), scale);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(HostChunks, SumAnyImages) {
  std::mt19937 engine(3);
  constexpr std::size_t blocks = 3;
  const codec::WireShape shape =
      codec::wire_shape(blocks * kValues, kValues, TypeParam::bits, sizeof(Bf16));
  for (int round = 0; round < 4000; ++round) {
    const std::size_t images = static_cast<std::size_t>(round) % 18;
    std::vector<std::byte> wire(images * shape.bytes + 1);
    for (std::byte& byte : wire) byte = static_cast<std::byte>(engine());
    for (std::size_t i = 0; i < images; ++i) {
      std::byte* const scales = wire.data() + i * shape.bytes + shape.scale_offset;
      for (std::size_t k = 0; k < blocks; ++k) {
        // Mostly near each other; else any bits, NaN, infinite and negative ones included.
        const auto bits =
            static_cast<std::uint16_t>(round % 4 == 0   ? engine()
                                       : round % 4 == 1 ? 0x7F00U + engine() % 0x80U
                                                        : 0x3E80U + engine() % 0x400U);
        std::memcpy(scales + 2 * k, &bits, 2);
      }
    }
    const codec::Summands from{{wire.data(), shape.bytes}, images, shape};
    for (const bool from_zero : {true, false}) {
      Row<float> got(0xA5);
      for (int i = 0; i < kValues; ++i) {
        got.data()[i] = i % 8 == 7 ? float_of(static_cast<std::uint32_t>(engine()))
                                   : static_cast<float>(i) - 7.25F;
      }
      Row<float> want = got;
      const std::size_t block = static_cast<std::size_t>(round) % blocks;
      TestFixture::Vectors::accumulate(from, block * TestFixture::kBytes, block, from_zero,
                                       got.data());
      TestFixture::Scalars::accumulate(from, block * TestFixture::kBytes, block, from_zero,
                                       want.data());
      ASSERT_TRUE(same_bytes(got, want)) << images << " images, round " << round;
    }
  }
}

template <class Memory>
void compare_magnitudes(std::mt19937& engine, std::size_t count) {
  std::vector<Memory> values(count + 1);
  const auto shift = static_cast<unsigned>(engine() % 16);
  std::uint32_t want = 0;
  bool finite = true;
  for (std::size_t i = 1; i <= count; ++i) {
    auto bits = static_cast<std::uint32_t>(engine());
    if (shift > 0) bits = (bits & 0x80008000U) | ((bits & 0x7FFF7FFFU) >> shift);
    if constexpr (sizeof(Memory) == 4) {
      values[i] = float_of(bits);
    } else {
      values[i].bits = static_cast<std::uint16_t>(bits);
    }
    const std::uint32_t magnitude = bits_of(to_float(values[i])) & 0x7FFFFFFFU;
    finite = finite && is_finite_bits(magnitude);
    want = std::max(want, magnitude);
  }
  const std::uint32_t got = codec::largest_magnitude(values.data() + 1, count);
  ASSERT_EQ(is_finite_bits(got), finite);
  if (finite) {
    ASSERT_EQ(got, want) << count << " values";
  }
}

TEST(HostVectors, FindTheLargestMagnitude) {
  std::mt19937 engine(4);
  for (std::size_t count = 16; count <= 8192; count += count < 512 ? 16 : 1536) {
    for (int round = 0; round < 40; ++round) {
      compare_magnitudes<float>(engine, count);
      compare_magnitudes<Bf16>(engine, count);
      compare_magnitudes<Fp16>(engine, count);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  // One value that is not finite, in every place.
  for (std::size_t place = 0; place < 64; ++place) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity(), float_of(0xFF800001U)}) {
      std::vector<float> values(64, -1.0F);
      values[place] = bad;
      ASSERT_FALSE(is_finite_bits(codec::largest_magnitude(values.data(), 64)));
    }
  }
}

template <class Half>
void widen_all() {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    if (!std::isfinite(to_float(half))) continue;
    const Floats wide = codec::widen(Half{}, Words{} + bits);
    ASSERT_EQ(bits_of(wide[bits % kLanes]), bits_of(to_float(half))) << std::hex << bits;
  }
}

/// Values, ties and their neighbours up to 2^top.
template <class Half>
void narrow_many(int top) {
  std::mt19937 engine(5);
  const float most = std::ldexp(1.0F, top);
  for (int round = 0; round < 2'000'000; ++round) {
    auto bits = static_cast<std::uint32_t>(engine());
    const auto kind = static_cast<unsigned>(engine()) % 4U;
    if (kind > 0) bits = (bits & ~0x1FFFU) | (0x0FFFU + kind - 1U);  // about ties of 11 bits
    if (kind > 1) bits = (bits & ~0xFFFFU) | (0x7FFFU + kind - 2U);  // and of 8 bits
    const float value = float_of(bits);
    if (!(std::fabs(value) <= most)) continue;
    const Words half = codec::narrow(Half{}, Floats{} + value);
    // Adding to zeros made +0 of -0, which a code times a scale never is.
    const float summed = 0.0F + value;
    ASSERT_EQ(half[round % kLanes], saturating_cast<Half>(summed).bits) << std::hex << bits;
  }
}

TEST(HostVectors, ConvertAsScalarsDo) {
  widen_all<Bf16>();
  widen_all<Fp16>();
  narrow_many<Bf16>(127);
  narrow_many<Fp16>(15);
}

}  // namespace
}  // namespace zeropp::test
