// Stands for kernels/codec/cuda in a build without CUDA.
#include "kernels/codec/exact.hpp"
#include "kernels/codec/feedback.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/fused.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

const ExactOps* cuda_exact_ops() { return nullptr; }
const FeedbackOps* cuda_feedback_ops() { return nullptr; }
ReduceEncode::Fused find_fused_cuda(std::string_view, std::string_view) { return nullptr; }

#define ZEROPP_ENTRY(name)                                  \
  namespace format::name {                                  \
  struct Format;                                            \
  }                                                         \
  template <>                                               \
  const CodecOps* cuda_format_ops<format::name::Format>() { \
    return nullptr;                                         \
  }
#include "codec_formats.inc"
#undef ZEROPP_ENTRY

template <class Rule>
const CodecOps* cuda_rule_ops() {
  return nullptr;
}
#define ZEROPP_RULE(...) template const CodecOps* cuda_rule_ops<__VA_ARGS__>();
ZEROPP_INTEGER_RULES(ZEROPP_RULE)
ZEROPP_STOCHASTIC_RULES(ZEROPP_RULE)
ZEROPP_FLOAT_RULES(ZEROPP_RULE)
#undef ZEROPP_RULE

}  // namespace zeropp::codec
