// ctest: name=contract1_codec_cuda_reduce_encode timeout=300
// decode_reduce_encode of every pair of formats on the GPU, fused or composed: the host's bytes by
// the host's path.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/codec_gpu.hpp"

namespace zeropp::test {
namespace {

using codec::ReduceEncode;

/// Values of the images: hostile_values(); normal values whose blocks differ by up to so many
/// powers of two from image to image, within the limit of sums in integers or just beyond; random
/// bits.
enum class Data { hostile, within_1, within_6, within_9, noise };

std::vector<float> values_of(Data data, std::size_t images, std::size_t n, std::size_t block) {
  if (data == Data::hostile) return hostile_values(images * n, block, 21);
  const int powers = data == Data::within_1 ? 1 : data == Data::within_6 ? 6 : 9;
  std::mt19937 engine(static_cast<std::uint32_t>(powers));
  std::normal_distribution<float> normal;
  std::vector<float> values(images * n);
  float scale = 1.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % n % block == 0) {
      const auto drawn = static_cast<std::uint32_t>(engine());
      scale =
          drawn % 16 == 0 ? 0.0F : std::ldexp(1.0F, -static_cast<int>(drawn / 16 % (powers + 1U)));
    }
    values[i] = scale * normal(engine);
  }
  return values;
}

class EveryCudaPair : public testing::TestWithParam<Pair> {};

TEST_P(EveryCudaPair, HasTheHostsBytes) {
  const CodecPair from({GetParam().from, Dtype::fp32});
  const CodecPair to({GetParam().to, Dtype::fp32});
  const ReduceEncode on_host(from.host, to.host);
  const ReduceEncode on_gpu(from.gpu, to.gpu);
  ASSERT_EQ(on_gpu.path(), on_host.path());
  const std::size_t block = std::max(from.host.block(), to.host.block());
  struct Shape {
    std::size_t images, slices, padded;
  };
  for (const Shape& shape :
       {Shape{4, 3, block}, Shape{16, 2, 2 * block}, Shape{17, 1, block + 17}, Shape{3, 3, 77},
        Shape{2, 2, 1}, Shape{2, 3, 0}, Shape{5, 1, 32}, Shape{0, 2, 40}, Shape{4, 2, 3 * 8192},
        Shape{1, 3, 8192 + 24}, Shape{8, 1, 8192 + 32}, Shape{33, 2, 2048}, Shape{600, 1, 64}}) {
    const std::size_t n = shape.slices * shape.padded;
    const WireTwin in(from.host, n, std::max<std::size_t>(shape.images, 1));
    for (const Data data :
         {Data::hostile, Data::within_1, Data::within_6, Data::within_9, Data::noise}) {
      SCOPED_TRACE(std::string(on_gpu.path()) + ", data " + std::to_string(static_cast<int>(data)) +
                   ": " + std::to_string(shape.images) + " images, " +
                   std::to_string(shape.slices) + " slices of " + std::to_string(shape.padded));
      if (data == Data::noise) {
        fill_with_noise(in.twin(), 5);
      } else {
        const std::vector<float> values = values_of(data, shape.images, n, from.host.block());
        from.host.encode(ConstView::of(values.data(), values.size()), {shape.images, n, 1, 0, n, n},
                         in.host(), {});
        in.twin().upload();
      }
      const WireTwin out(to.host, shape.padded, shape.slices);
      const Twin scratch(on_gpu.scratch_elements(shape.slices, shape.padded) * sizeof(float));
      on_host.run(in.host(), shape.images, shape.slices, shape.padded, out.host(),
                  reinterpret_cast<float*>(scratch.host()), {});
      on_gpu.run(in.gpu(), shape.images, shape.slices, shape.padded, out.gpu(),
                 reinterpret_cast<float*>(scratch.device()), gpu_stream().handle());
      ASSERT_TRUE(out.same());
      ASSERT_TRUE(scratch.same(4)) << "scratch";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryCudaPair, testing::ValuesIn(all_pairs()),
                         [](const auto& pair) { return label_of(pair); });

}  // namespace
}  // namespace zeropp::test
