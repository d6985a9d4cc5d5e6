// One run of the matrix: the trainer's session on a team, watched as its level asks, made into a
// record. Collective over the team.
#pragma once

#include <optional>
#include <string>

#include "apps/converge/plan.hpp"
#include "apps/converge/run_record.hpp"
#include "apps/converge/team.hpp"
#include "lib/train/tokens.hpp"

namespace zeropp::converge {

/// Result of a run on this rank.
struct RunResult {
  RunRecord record;     ///< complete on the team's rank 0
  int interrupted = 0;  ///< the signal that ended it; then nothing of the record counts
};

/// Hash of the order of data in a run: tokens, seed, batches, steps.
std::string data_hash(const config::TrainConfig& config, const train::Tokens& tokens);

/// A run whose losses or gradients are not finite any more ends early
/// with a verdict that says so. Throws AgreedError as the trainer does.
RunResult run_one(const Setting& setting, const StudyRun& planned, const Team& team,
                  const train::Tokens& tokens, const app::Context& job);

}  // namespace zeropp::converge
