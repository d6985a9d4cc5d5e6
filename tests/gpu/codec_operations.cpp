// ctest: name=contract1_codec_cuda_operations timeout=600
// Every registered codec on the GPU gives the host's bytes: encode, decode, decode_onto, decode_add
// and decode_reduce over layouts of every kind, and touches nothing else.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/codec_gpu.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

std::string text_of(const Layout& layout) {
  std::string text = "images x slices x (length of padded), strides: ";
  for (const std::size_t number : {layout.images, layout.slices, layout.length, layout.padded,
                                   layout.image_stride, layout.slice_stride}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

std::size_t reach_of(const Layout& layout) {
  if (layout.images == 0 || layout.slices == 0 || layout.length == 0) return 0;
  return (layout.images - 1) * layout.image_stride + (layout.slices - 1) * layout.slice_stride +
         layout.length;
}

class EveryCudaCodec : public testing::TestWithParam<Binding> {
 protected:
  Binding binding_ = GetParam();
  CodecPair codec_{binding_};
  std::size_t block_ = codec_.host.block();

  /// Cast formats treat each memory dtype in its own way; the others see the bound one only.
  [[nodiscard]] std::vector<Dtype> memories() const {
    if (binding_.scaled()) return {binding_.memory};
    return {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  }

  /// Encodes, then decodes what the host encoded and then noise, with memory `shift` elements off
  /// its alignment.
  void expect_equal(const Layout& layout, Dtype dtype, std::size_t shift) {
    SCOPED_TRACE(text_of(layout) + "in " + std::string(name_of(dtype)) + ", shifted by " +
                 std::to_string(shift));
    const std::size_t count = reach_of(layout);
    const std::size_t bytes = count * size_of(dtype);
    const StreamHandle stream = gpu_stream().handle();

    const Twin memory(bytes, shift * size_of(dtype));
    fill_with(memory, hostile_values(count, block_, static_cast<std::uint32_t>(count)), dtype);
    const WireTwin wire(codec_.host, layout.wire_elements(), layout.images);
    // Numbers beyond 32 bits, and slices apart by more than their length.
    const codec::Draw draw{0xFEDCBA9876543210U, std::uint64_t{5} << 33U, std::uint64_t{3} << 40U,
                           std::uint64_t{1} << 35U};
    codec_.host.encode(memory.host_view(count, dtype), layout, wire.host(), {}, draw);
    codec_.gpu.encode(memory.device_view(count, dtype), layout, wire.gpu(), stream, draw);
    ASSERT_TRUE(wire.same()) << "encode";

    for (const bool noise : {false, true}) {
      if (noise) fill_with_noise(wire.twin(), 17);
      const Twin back(bytes, shift * size_of(dtype));
      codec_.host.decode(wire.host(), layout, back.host_view(count, dtype), {});
      codec_.gpu.decode(wire.gpu(), layout, back.device_view(count, dtype), stream);
      ASSERT_TRUE(back.same(size_of(dtype))) << (noise ? "decode of noise" : "decode");
      fill_with(back, hostile_values(count, block_, 31), dtype);
      codec_.host.decode_onto(wire.host(), layout, back.host_view(count, dtype), {});
      codec_.gpu.decode_onto(wire.gpu(), layout, back.device_view(count, dtype), stream);
      ASSERT_TRUE(back.same(size_of(dtype))) << (noise ? "decode_onto of noise" : "decode_onto");
    }
  }
};

TEST_P(EveryCudaCodec, EncodesAndDecodesAnyLength) {
  for (const Dtype dtype : memories()) {
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{31},
          block_ - 1, block_, block_ + 1, 3 * block_ + 7, std::size_t{8191}, std::size_t{8192},
          std::size_t{8197}, std::size_t{40009}, std::size_t{65536}}) {
      expect_equal(Layout::contiguous(n), dtype, 0);
    }
  }
}

TEST_P(EveryCudaCodec, EncodesAndDecodesMemoryOffItsAlignment) {
  for (const Dtype dtype : memories()) {
    for (const std::size_t n : {std::size_t{1}, block_ + 1, std::size_t{10007}}) {
      for (const std::size_t shift : {1, 4, 7}) expect_equal(Layout::contiguous(n), dtype, shift);
    }
  }
}

TEST_P(EveryCudaCodec, EncodesAndDecodesStridedLayouts) {
  const std::size_t wide = std::max(block_, std::size_t{16});
  const std::vector<Layout> layouts = {
      // Whole vectors on 16-byte boundaries, with and without a tail.
      {3, 8 * wide, 2, 3 * wide, 2 * wide, 2 * wide},
      {3, 8 * wide, 2, 3 * wide, 2 * wide - 9, 2 * wide},
      {2, 64 * wide, 5, 6 * wide, 5 * wide + 8, 6 * wide},
      {2, 30016, 3, 10000, 9992, 10000},
      // Strides that are not, slices that straddle blocks and vectors.
      {3, 14 * wide + 5, 2, 6 * wide + 1, 2 * wide - 9, 2 * wide},
      {3, 7 * wide + 75, 2, 3 * wide + 31, wide + 1, wide + 10},
      {2, 1000, 9, 101, 97, 101},
      // Slices shorter than a vector; none in memory; no slices; no images.
      {2, 40, 7, 5, 3, 5},
      {2, 400, 300, 1, 1, 1},
      {2, 0, 3, 0, 0, 40},
      {2, 0, 0, 0, 40, 40},
      {0, 40, 1, 0, 40, 40},
  };
  for (const Dtype dtype : memories()) {
    for (const Layout& layout : layouts) expect_equal(layout, dtype, 0);
  }
}

TEST_P(EveryCudaCodec, RoundsFp32Memory) {
  const StreamHandle stream = gpu_stream().handle();
  const codec::Draw draw{.key = 11};
  for (const std::size_t n : {std::size_t{1}, block_ + 1, std::size_t{8197}, std::size_t{40009}}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{3}}) {
      const Twin memory(n * 4, shift * 4);
      fill_with(memory, hostile_values(n, block_, static_cast<std::uint32_t>(n)), Dtype::fp32);
      const Layout layout = Layout::contiguous(n);
      const WireTwin wire(codec_.host, n, 1);
      codec_.host.rounding().encode(memory.host_view(n, Dtype::fp32), layout, wire.host(), {},
                                    draw);
      codec_.gpu.rounding().encode(memory.device_view(n, Dtype::fp32), layout, wire.gpu(), stream,
                                   draw);
      ASSERT_TRUE(wire.same()) << n << " values, shifted by " << shift;
    }
  }
}

TEST_P(EveryCudaCodec, SumsInImageOrder) {
  // Sums are fp32 whatever the memory dtype, which names another format for `none` alone.
  if (binding_.spec.format != "none" && binding_.memory != Dtype::fp32) return;
  const std::size_t n = 2 * block_ + 4099;
  const StreamHandle stream = gpu_stream().handle();
  for (std::size_t images = 0; images <= 17; ++images) {
    SCOPED_TRACE(std::to_string(images) + " images");
    const WireTwin wire(codec_.host, n, std::max<std::size_t>(images, 1));
    const Twin values(images * n * 4);
    fill_with(values, hostile_values(images * n, block_, static_cast<std::uint32_t>(images)),
              Dtype::fp32);
    codec_.host.encode(values.host_view(images * n, Dtype::fp32), {images, n, 1, 0, n, n},
                       wire.host(), {});
    wire.twin().upload();
    for (const bool noise : {false, true}) {
      if (noise) fill_with_noise(wire.twin(), static_cast<std::uint32_t>(images));
      for (const std::size_t wanted : {n, n - 5, block_ + 1, std::size_t{1}, std::size_t{0}}) {
        for (const std::size_t shift : {0, 3}) {
          SCOPED_TRACE((noise ? "noise, " : "") + std::to_string(wanted) + " values, shifted by " +
                       std::to_string(shift));
          const Twin sum(wanted * 4, shift * 4);
          codec_.host.decode_reduce(wire.host(), images, n, wanted,
                                    reinterpret_cast<float*>(sum.host()), {});
          codec_.gpu.decode_reduce(wire.gpu(), images, n, wanted,
                                   reinterpret_cast<float*>(sum.device()), stream);
          ASSERT_TRUE(sum.same(4)) << "decode_reduce";
          if (images != 1) continue;
          fill_with(sum, hostile_values(wanted, block_, 99), Dtype::fp32);
          codec_.host.decode_add(wire.host(), n, wanted, reinterpret_cast<float*>(sum.host()), {});
          codec_.gpu.decode_add(wire.gpu(), n, wanted, reinterpret_cast<float*>(sum.device()),
                                stream);
          ASSERT_TRUE(sum.same(4)) << "decode_add";
        }
      }
    }
  }
}

TEST_P(EveryCudaCodec, RefusesWhatItCannotReach) {
  const Twin memory(400);
  const WireTwin wire(codec_.host, 101, 2);
  const StreamHandle stream = gpu_stream().handle();
  const View host = memory.host_view(100, Dtype::fp32);
  const View device = memory.device_view(100, Dtype::fp32);
  EXPECT_THROW(codec_.gpu.encode(host, Layout::contiguous(100), wire.gpu(), stream),
               std::logic_error);
  EXPECT_THROW(codec_.gpu.decode(wire.gpu(), Layout::contiguous(100), host, stream),
               std::logic_error);
  EXPECT_THROW(codec_.gpu.encode(device, Layout::contiguous(101), wire.gpu(), stream),
               std::logic_error);
  EXPECT_THROW(codec_.gpu.decode(wire.gpu(), Layout::contiguous(101), device, stream),
               std::logic_error);
  codec::WireImages odd = wire.gpu();
  odd.data += 8;
  EXPECT_THROW(codec_.gpu.encode(device, Layout::contiguous(100), odd, stream), std::logic_error);
  odd = wire.gpu();
  odd.stride += 8;
  EXPECT_THROW(codec_.gpu.decode_reduce(odd, 2, 100, 100, nullptr, stream), std::logic_error);
  EXPECT_TRUE(wire.same());
  EXPECT_THROW(codec::ReduceEncode(codec_.host, codec_.gpu), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryCudaCodec, testing::ValuesIn(all_bindings()),
                         [](const auto& binding) { return label_of(binding); });

}  // namespace
}  // namespace zeropp::test
