// The kernels of the integer rules that round stochastically.
#include "kernels/codec/cuda/cuda_tables.cuh"
#include "kernels/codec/cuda/rule_kernels.cuh"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

template <class Rule>
const CodecOps* cuda_rule_ops() {
  static const CodecOps ops = cuda::cuda_table<cuda::RuleLaunchers<Rule>>();
  return &ops;
}

#define ZEROPP_RULE(...) template const CodecOps* cuda_rule_ops<__VA_ARGS__>();
ZEROPP_STOCHASTIC_RULES(ZEROPP_RULE)
#undef ZEROPP_RULE

}  // namespace zeropp::codec
