#include "kernels/codec/rule_ops.hpp"

#include "kernels/codec/host_kernels.hpp"
#include "kernels/codec/host_rule.hpp"

namespace zeropp::codec {

template <class Rule>
const CodecOps* host_rule_ops() {
  static const CodecOps ops = host_table<RuleKernels<Rule>>();
  return &ops;
}

#define ZEROPP_RULE(...) template const CodecOps* host_rule_ops<__VA_ARGS__>();
ZEROPP_INTEGER_RULES(ZEROPP_RULE)
ZEROPP_STOCHASTIC_RULES(ZEROPP_RULE)
ZEROPP_FLOAT_RULES(ZEROPP_RULE)
#undef ZEROPP_RULE

}  // namespace zeropp::codec
