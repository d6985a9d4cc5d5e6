// State that a checkpoint of a training run keeps beside its arrays, and its text in the manifest.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/zero/engine/engine.hpp"
#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::train {

struct SavedState {
  zero::StepCounts steps;
  zero::LossScale::State loss_scale;
  bool searches_loss_scale = false;  ///< it is dynamic
  nlohmann::json run;                ///< identity_of() it
  std::uint64_t seed = 0;
  std::string tokens;   ///< the data's fingerprint
  std::string decayed;  ///< zeropp.decayed_parameters
};

std::string to_text(const SavedState& state);

/// Throws Error(io) for what to_text() did not make.
SavedState state_of(const std::string& text);

}  // namespace zeropp::train
