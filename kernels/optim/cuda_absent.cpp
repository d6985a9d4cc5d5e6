// Stands for kernels/optim/cuda in a build without CUDA.
#include "kernels/optim/optim_ops.hpp"
#include "kernels/optim/registry.hpp"

namespace zeropp::optim {

const OptimOps* cuda_optim_ops() { return nullptr; }

#define ZEROPP_ENTRY(name)                            \
  namespace rule::name {                              \
  struct Rule;                                        \
  }                                                   \
  template <>                                         \
  UpdatePieces cuda_update<rule::name::Rule>() {      \
    return nullptr;                                   \
  }                                                   \
  template <>                                         \
  UpdateTiles cuda_update_tiles<rule::name::Rule>() { \
    return nullptr;                                   \
  }
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY

}  // namespace zeropp::optim
