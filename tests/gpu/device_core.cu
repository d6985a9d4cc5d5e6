// The maths below the codecs, translated for the device: 16-bit conversions, random numbers, AdamW.
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/half.hpp"
#include "kernels/optim/adamw_math.hpp"

namespace zeropp {

__global__ void round_to_16_bits(const float* values, Bf16* bf16, Fp16* fp16, float* sums) {
  bf16[threadIdx.x] = saturating_cast<Bf16>(values[threadIdx.x]);
  fp16[threadIdx.x] = saturating_cast<Fp16>(values[threadIdx.x]);
  sums[threadIdx.x] = to_float(bf16[threadIdx.x]) + to_float(fp16[threadIdx.x]);
}

__global__ void draw_normal(std::uint64_t key, std::uint64_t stream, float* values) {
  values[threadIdx.x] = standard_normal(key, stream, threadIdx.x);
}

__global__ void adamw(const float* gradients, optim::AdamWConstants constants, float* weights,
                      float* m, float* v) {
  optim::adamw_update(gradients[threadIdx.x], constants.decay_factor, constants,
                      weights[threadIdx.x], m[threadIdx.x], v[threadIdx.x]);
}

}  // namespace zeropp
