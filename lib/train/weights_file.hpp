// Weights as files that `transformers` reads and writes, as GPT-2, Llama or Qwen2:
// `model.safetensors`, and `config.json` beside it. Without the optimizer's state: a run that
// begins with them begins at its first step. Collective: all ranks call both, in the same order.
#pragma once

#include <filesystem>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/checkpoint/manifest.hpp"
#include "lib/config/train_config.hpp"
#include "lib/train/session.hpp"

namespace zeropp::train {

/// Writes both files to `folder`, in the type that the run computes in: rank 0 gathers one unit
/// after the other, and returns their digests. Throws AgreedError.
std::vector<checkpoint::StoredFile> export_weights(const std::filesystem::path& folder,
                                                   const config::TrainConfig& config,
                                                   const app::Context& context,
                                                   const Session& session);

/// Begins with the weights of a `model.safetensors`; each rank reads what it keeps. Before the
/// first step. Throws AgreedError where tensors are missing, have another shape, or would be left
/// over.
void import_weights(const std::filesystem::path& file, const model::Options& options,
                    const app::Context& context, Session& session);

/// Reads the files of `manifest` in its folder, and throws Error(io) where they are not those that
/// were written. Each of `ranks` ranks reads its share of the weights.
void verify_exported(const std::filesystem::path& folder, const checkpoint::Manifest& manifest,
                     std::size_t rank, std::size_t ranks);

}  // namespace zeropp::train
