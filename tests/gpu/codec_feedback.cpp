// ctest: name=contract1_codec_cuda_feedback timeout=300
// Encoding with error feedback on the GPU: images, errors and scratch are the host's bytes, for
// every codec, memory dtype and shape, values that are not finite included.
#include <gtest/gtest.h>

#include "kernels/codec/feedback.hpp"
#include "tests/support/codec_gpu.hpp"
#include "tests/support/feedback_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Errors;
using codec::FeedbackEncode;

class CudaFeedback : public testing::TestWithParam<Binding> {};

void fill(const Twin& twin, const std::vector<float>& from, Dtype dtype) {
  const View view = twin.host_view(from.size(), dtype);
  with_type(dtype, [&]<class T>(T*) {
    for (std::size_t i = 0; i < from.size(); ++i) view.as<T>()[i] = saturating_cast<T>(from[i]);
  });
  twin.upload();
}

TEST_P(CudaFeedback, HasTheHostsBytes) {
  const CodecPair codec(GetParam());
  const Dtype memory = GetParam().memory;
  for (const FeedbackShape& shape : feedback_shapes(codec.host.block())) {
    const std::size_t n = shape.values();
    for (const float beta : kDecays) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(memory) << ", decay " << beta << ", " << shape.layout.images
                     << " images of " << shape.layout.slices << " slices of " << shape.layout.length
                     << (in_place ? ", in place" : ""));
        const Twin values(n * size_of(memory));
        fill(values, hostile_values(n, codec.host.block(), 41), memory);
        const Twin current(shape.errors() * sizeof(float));
        fill(current, random_values(shape.errors(), 42), Dtype::fp32);
        const Twin next(shape.errors() * sizeof(float));
        const Twin scratch(FeedbackEncode::scratch_elements(shape.layout) * sizeof(float));
        const WireTwin out(codec.host, shape.layout.wire_elements(), shape.layout.images);
        const auto errors = [&](std::byte* from, std::byte* to) {
          return Errors{reinterpret_cast<const float*>(from),
                        reinterpret_cast<float*>(in_place ? from : to), shape.errors_image_stride,
                        shape.errors_slice_stride};
        };
        FeedbackEncode(codec.host, beta)
            .run(values.host_view(n, memory), shape.layout, errors(current.host(), next.host()),
                 out.host(), reinterpret_cast<float*>(scratch.host()), {});
        FeedbackEncode(codec.gpu, beta)
            .run(values.device_view(n, memory), shape.layout,
                 errors(current.device(), next.device()), out.gpu(),
                 reinterpret_cast<float*>(scratch.device()), gpu_stream().handle());
        ASSERT_TRUE(out.same()) << "images";
        ASSERT_TRUE(next.same(4)) << "new errors";
        ASSERT_TRUE(current.same(4)) << "old errors";
        ASSERT_TRUE(scratch.same(4)) << "carried and decoded values";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, CudaFeedback, testing::ValuesIn(all_bindings()),
                         [](const auto& binding) { return label_of(binding); });

TEST(CudaFeedbackScale, HasTheHostsBytes) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const float factor : {2.0F, 0.5F, 1.7F}) {
      constexpr std::size_t n = 100'003;
      const Twin values(n * size_of(dtype));
      fill(values, hostile_values(n, 64, 43), dtype);
      codec::feedback_ops(Backend::host).scale(factor, values.host_view(n, dtype), {});
      codec::feedback_ops(Backend::cuda)
          .scale(factor, values.device_view(n, dtype), gpu_stream().handle());
      ASSERT_TRUE(values.same(size_of(dtype))) << name_of(dtype) << " * " << factor;
    }
  }
}

}  // namespace
}  // namespace zeropp::test
