// ctest: name=contract1_codec_cuda_large timeout=180
// More than 2^31 values in one call: windows of the result have the host's bytes. Skipped where the
// GPU has too little memory.
#include <gtest/gtest.h>

#include <optional>

#include "lib/base/error.hpp"
#include "tests/support/codec_gpu.hpp"

namespace zeropp::test {
namespace {

using codec::Layout;

constexpr std::size_t kTwoTo31 = std::size_t{1} << 31U;
constexpr std::size_t kValues = kTwoTo31 + 5 * 8192 + 13;
constexpr std::size_t kWindow = 3 * 8192;

/// Windows of whole blocks around what 31 and 32 bits can count, in elements and bytes, and both
/// ends; the last one is ragged.
constexpr std::size_t kWindows[] = {0, kTwoTo31 / 4 - 8192, kTwoTo31 / 2 - 8192, kTwoTo31 - 8192,
                                    kValues / 8192 * 8192 - 8192};

std::size_t length_of(std::size_t first) { return std::min(kWindow, kValues - first); }

/// kValues bf16 values on the GPU: a tile of them, of a prime length, over and over.
Buffer large_values() {
  constexpr std::size_t tile = 15485863;
  const Values part(hostile_values(tile, 8192, 3), Dtype::bf16);
  Buffer memory(kValues * 2, MemoryKind::device);
  for (std::size_t first = 0; first < kValues; first += tile) {
    const std::size_t count = std::min(tile, kValues - first);
    cuda_memory_ops()->copy(ConstView(part.view()).part(0, count),
                            memory.view(count, Dtype::bf16, first * 2), gpu_stream().handle());
  }
  gpu_stream().synchronize();
  return memory;
}

/// `bytes` bytes of the GPU from `first` on.
std::vector<std::byte> window_of(const Buffer& buffer, std::size_t first, std::size_t bytes) {
  std::vector<std::byte> window(bytes);
  copy_now(buffer.data() + first, MemoryKind::device, window.data(), MemoryKind::host, bytes);
  return window;
}

void expect_window(const std::vector<std::byte>& got, const std::byte* want, std::size_t window,
                   const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::to_integer<int>(got[i]), std::to_integer<int>(want[i]))
        << what << ": byte " << i << " of the window of values from " << window << " on";
  }
}

class LargeCodec : public testing::TestWithParam<const char*> {};

TEST_P(LargeCodec, HasTheHostsBytesInEveryWindow) try {
  const codec::CodecSpec spec = codec::parse_codec(GetParam());
  const Binding binding{spec, Dtype::bf16};
  const CodecPair codec(binding);
  const StreamHandle stream = gpu_stream().handle();
  const std::size_t block = codec.host.block();
  const std::size_t bits = binding.scaled() ? binding.info().bits : 16;
  const std::size_t scale_bytes = binding.info().scale_bytes;
  const std::size_t blocks = (kValues + block - 1) / block;
  const std::size_t scales_at = (blocks * block * bits / 8 + 15) / 16 * 16;

  const Buffer values = large_values();
  const Buffer wire(codec.gpu.wire_bytes(kValues), MemoryKind::device);
  const Buffer back(kValues * 2, MemoryKind::device);
  const Buffer sum(kValues * 4, MemoryKind::device);
  const Layout layout = Layout::contiguous(kValues);
  codec.gpu.encode(values.view(kValues, Dtype::bf16), layout, {wire.data(), 0}, stream);
  codec.gpu.decode(codec::WireImages{wire.data(), 0}, layout, back.view(kValues, Dtype::bf16),
                   stream);
  codec.gpu.decode_reduce(codec::WireImages{wire.data(), 0}, 1, kValues, kValues,
                          reinterpret_cast<float*>(sum.data()), stream);
  gpu_stream().synchronize();
  for (const std::size_t first : kWindows) {
    const std::size_t n = length_of(first);
    std::vector<std::byte> in = window_of(values, first * 2, n * 2);
    Wire image(codec.host, n);
    codec.host.encode(ConstView(in.data(), n, Dtype::bf16), Layout::contiguous(n), image.images(),
                      {});
    const std::byte* const want = image.images().data;
    const std::size_t window_blocks = (n + block - 1) / block;
    const std::size_t payload = window_blocks * block * bits / 8;
    expect_window(window_of(wire, first * bits / 8, payload / 2 * 2), want, first, "payload");
    if (scale_bytes > 0) {
      expect_window(
          window_of(wire, scales_at + first / block * scale_bytes, window_blocks * scale_bytes),
          want + (payload + 15) / 16 * 16, first, "scales");
    }
    const Values decoded_values = decoded(codec.host, image, n, Dtype::bf16);
    expect_window(window_of(back, first * 2, n * 2),
                  static_cast<const std::byte*>(decoded_values.view().data), first, "decode");
    std::vector<float> sums(n);
    codec.host.decode_reduce(image.images(), 1, n, n, sums.data(), {});
    expect_window(window_of(sum, first * 4, n * 4), reinterpret_cast<const std::byte*>(sums.data()),
                  first, "decode_reduce");
  }
} catch (const Error& error) {
  GTEST_SKIP() << error.what();
}

/// Two slices far apart, one image each after decode_reduce_encode: offsets beyond 2^31 in both.
TEST_P(LargeCodec, ReencodesSlicesBeyond31Bits) try {
  const Binding binding{codec::parse_codec(GetParam()), Dtype::fp32};
  const CodecPair codec(binding);
  const codec::ReduceEncode operation(codec.gpu, codec.gpu);
  if (operation.path() != "fused") GTEST_SKIP() << "no fused pair";
  const StreamHandle stream = gpu_stream().handle();
  const std::size_t padded = kTwoTo31 / 2 + 8192;
  const Buffer values = large_values();
  const Buffer in(codec.gpu.wire_bytes(2 * padded), MemoryKind::device);
  const std::size_t image_bytes = codec.gpu.wire_bytes(padded);
  const Buffer out(2 * image_bytes, MemoryKind::device);
  codec.gpu.encode(values.view(kValues, Dtype::bf16), {1, 0, 2, padded, padded, padded},
                   {in.data(), 0}, stream);
  operation.run(codec::WireImages{in.data(), 0}, 1, 2, padded, {out.data(), image_bytes}, nullptr,
                stream);
  gpu_stream().synchronize();
  const std::size_t bits = binding.info().bits;
  for (const std::size_t slice : {0, 1}) {
    for (const std::size_t first : {std::size_t{0}, padded - kWindow}) {
      std::vector<std::byte> window = window_of(values, (slice * padded + first) * 2, kWindow * 2);
      Wire once(codec.host, kWindow);
      codec.host.encode(ConstView(window.data(), kWindow, Dtype::bf16), Layout::contiguous(kWindow),
                        once.images(), {});
      Wire twice(codec.host, kWindow);
      codec::ReduceEncode(codec.host, codec.host)
          .run(once.images(), 1, 1, kWindow, twice.images(), nullptr, {});
      expect_window(window_of(out, slice * image_bytes + first * bits / 8, kWindow * bits / 8),
                    twice.images().data, slice * padded + first, "re-encoded payload");
    }
  }
} catch (const Error& error) {
  GTEST_SKIP() << error.what();
}

INSTANTIATE_TEST_SUITE_P(Formats, LargeCodec, testing::Values("int8:256", "int4:128", "bf16"),
                         [](const auto& name) { return label_of(codec::parse_codec(name.param)); });

}  // namespace
}  // namespace zeropp::test
