// Identity that a checkpoint and a run that resumes from it have in common: the options that shape
// the model or the optimizer's state, and every tensor. All other options may change between the
// two (see docs/howto/checkpoints.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/config/train_config.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::train {

/// The identity of a run of a model with these units, as a checkpoint keeps it: options by their
/// flags without the dashes, and "tensors", the names and shapes of each unit in their order.
/// `vocab_size`: model::effective_vocab_size().
nlohmann::json identity_of(const config::TrainConfig& config, std::size_t vocab_size,
                           const std::vector<zero::Unit>& units);

/// Compares what the checkpoint in `folder` has `saved` with a run's `own`. Returns the keys that a
/// checkpoint of an earlier version lacks, of which nothing is known. Throws Error(usage) that
/// names the first key that differs and both values, also where it is one that this version does
/// not know.
std::vector<std::string> require_same_run(const nlohmann::json& saved, const nlohmann::json& own,
                                          const std::string& folder);

}  // namespace zeropp::train
