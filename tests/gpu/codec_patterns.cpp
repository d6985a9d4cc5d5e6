// ctest: name=contract1_codec_cuda_patterns timeout=600
// All 65,536 patterns of the 16-bit types through every registered codec on the GPU and on the
// host: the same bytes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codec_gpu.hpp"

namespace zeropp::test {
namespace {

using codec::Layout;

/// Every pattern of `dtype`, in order. `finite`: only the finite ones, spread, so that values of
/// every size share a block and no block is lost to a NaN.
std::vector<std::uint16_t> patterns_of(Dtype dtype, bool finite) {
  std::vector<std::uint16_t> patterns;
  const std::uint16_t infinity = dtype == Dtype::bf16 ? 0x7F80 : 0x7C00;
  for (std::uint32_t i = 0; i < 0x10000U; ++i) {
    const auto bits = static_cast<std::uint16_t>(finite ? i * 40503U : i);  // odd: a permutation
    if (!finite || (bits & 0x7FFFU) < infinity) patterns.push_back(bits);
  }
  return patterns;
}

class EveryPattern : public testing::TestWithParam<Binding> {};

TEST_P(EveryPattern, HasTheHostsBytes) {
  const Binding binding = GetParam();
  const CodecPair codec(binding);
  const StreamHandle stream = gpu_stream().handle();
  for (const Dtype source : {Dtype::bf16, Dtype::fp16}) {
    if (binding.memory != Dtype::fp32 && binding.memory != source) continue;
    for (const bool finite : {false, true}) {
      SCOPED_TRACE((finite ? "finite patterns of " : "patterns of ") +
                   std::string(name_of(source)));
      const std::vector<std::uint16_t> patterns = patterns_of(source, finite);
      const std::size_t n = patterns.size();
      Values values(n, binding.memory);
      for (std::size_t i = 0; i < n; ++i) {
        if (binding.memory == source) {
          values.set_bits(i, patterns[i]);
        } else {
          values.set_bits(i, bits_of(source == Dtype::bf16 ? to_float(Bf16{patterns[i]})
                                                           : to_float(Fp16{patterns[i]})));
        }
      }
      const Twin memory(n * size_of(binding.memory));
      std::memcpy(memory.host(), values.view().data, memory.bytes());
      memory.upload();
      const WireTwin wire(codec.host, n, 1);
      const Layout layout = Layout::contiguous(n);
      codec.host.encode(memory.host_view(n, binding.memory), layout, wire.host(), {});
      codec.gpu.encode(memory.device_view(n, binding.memory), layout, wire.gpu(), stream);
      ASSERT_TRUE(wire.same()) << "encode";
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        const Twin back(n * size_of(dtype));
        codec.host.decode(wire.host(), layout, back.host_view(n, dtype), {});
        codec.gpu.decode(wire.gpu(), layout, back.device_view(n, dtype), stream);
        ASSERT_TRUE(back.same(size_of(dtype))) << "decode to " << name_of(dtype);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPattern, testing::ValuesIn(all_bindings()),
                         [](const auto& binding) { return label_of(binding); });

}  // namespace
}  // namespace zeropp::test
