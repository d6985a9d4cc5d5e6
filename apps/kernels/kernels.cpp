#include "apps/kernels/entries.hpp"
#include "apps/kernels/program.hpp"

namespace zeropp::kernels {

const std::vector<const Kernel*>& kernels() {
  static const std::vector<const Kernel*> table{
      &copy,
      &clear,
      &convert,
      &encode,
      &decode,
      &decode_add,
      &decode_reduce,
      &decode_reduce_encode,
      &reorder_encode,
      &exact_count,
      &exact_encode,
      &exact_decode,
      &adamw,
      &adamw_encode,
      &gradient_norm,
      &add,
      &embedding_forward,
      &embedding_backward,
      &layernorm_forward,
      &layernorm_backward,
      &rmsnorm_forward,
      &rmsnorm_backward,
      &linear_forward,
      &linear_gelu_forward,
      &linear_backward,
      &swiglu_forward,
      &swiglu_backward,
      &rotary,
      &attention_forward,
      &attention_backward,
      &cross_entropy,
  };
  return table;
}

}  // namespace zeropp::kernels
