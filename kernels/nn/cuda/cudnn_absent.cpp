// Stands for kernels/nn/cuda/cudnn in a build that found no headers of cuDNN or of its front end.
#include "kernels/nn/cuda/attention_path.hpp"

namespace zeropp::nn::cuda_ops {

const FusedAttention& fused_attention() {
  static const FusedAttention kAbsent{nullptr, "built without cuDNN and its front end"};
  return kAbsent;
}

}  // namespace zeropp::nn::cuda_ops
