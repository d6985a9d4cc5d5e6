// What runs the registered optimizers on a GPU.
#include "kernels/optim/registry.hpp"

namespace zeropp::optim {

// Each is defined in a source generated from cuda_rule.cu.in.
#define ZEROPP_ENTRY(name)         \
  namespace rule::name {           \
  UpdatePieces cuda_rule_update(); \
  }
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY

UpdatePieces cuda_update(std::string_view stem) {
#define ZEROPP_ENTRY(name) \
  if (stem == #name) return rule::name::cuda_rule_update();
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY
  return nullptr;
}

}  // namespace zeropp::optim
