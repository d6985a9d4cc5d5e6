// A model's parameters and work without the model: what a plan needs of it. Takes no memory but its
// own lists.
#pragma once

#include <vector>

#include "lib/model/options.hpp"
#include "lib/model/sizing.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Floating-point operations a token of one layer, forward and backward.
struct LayerFlops {
  double model = 0;     ///< part of UnitModel::flops_per_token()
  double hardware = 0;  ///< part of UnitModel::hardware_flops_per_token()
};

struct Description {
  std::vector<zero::Unit> units;
  std::vector<zero::Layer> layers;
  double flops_per_token = 0;           ///< UnitModel::flops_per_token()
  double hardware_flops_per_token = 0;  ///< UnitModel::hardware_flops_per_token()
  std::size_t memory = 0;               ///< bytes that UnitModel::memory() predicts
  std::size_t offloaded_memory = 0;     ///< bytes that UnitModel::offloaded_memory() predicts
};

/// Description of the model options.name, with options.vocab_size or the source's,
/// sizing.vocab_size. Validates as make_model() (registry.hpp), which makes it.
Description describe_model(const Options& options, const Sizing& sizing);

}  // namespace zeropp::model
