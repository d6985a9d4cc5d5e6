// Weights as files that `transformers` reads and writes as GPT-2: `model.safetensors`, and
// `config.json` beside it. Without the optimizer's state: a run that begins with them begins at its
// first step. Collective: all ranks call both, in the same order.
#pragma once

#include <filesystem>

#include "lib/app/app.hpp"
#include "lib/config/train_config.hpp"
#include "lib/train/session.hpp"

namespace zeropp::train {

/// Writes both files to `folder`, in the type that the run computes in: rank 0 gathers one unit
/// after the other. Throws AgreedError.
void export_weights(const std::filesystem::path& folder, const config::TrainConfig& config,
                    const app::Context& context, const Session& session);

/// Begins with the weights of a `model.safetensors`; each rank reads what it keeps. Before the
/// first step. Throws AgreedError where tensors are missing, have another shape, or would be left
/// over.
void import_weights(const std::filesystem::path& file, const app::Context& context,
                    Session& session);

}  // namespace zeropp::train
