// Plan of the runs of a matrix on this machine: each setting's configuration as the trainer
// resolves it for a team, what the trace says of it, and the list of runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/converge/matrix.hpp"
#include "apps/converge/team.hpp"
#include "lib/app/app.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::converge {

/// The trainer's configuration of one run, with the options that are bound to it.
struct RunConfig {
  config::TrainConfig config;
  std::vector<config::Option> options;
};

/// A row of /settings.
struct SettingRow {
  std::string name;
  std::string level;
  std::string model;
  std::uint64_t stage = 0;
  std::string weight_codec;
  std::string gradient_codec_intra;
  std::string gradient_codec_inter;
  std::string reduce_scatter;
  std::uint64_t hpz = 1;
  std::string feedback;
  std::string optimizer;
  double weight_bits = 0;
  double gradient_bits = 0;
  std::string baseline;
  std::string config_json;
};

/// A run that is to be done.
struct StudyRun {
  std::size_t setting = 0;  ///< in Plan::settings
  std::uint64_t seed = 0;
  RunRanks ranks;
  std::size_t ranks_per_node = 0;  ///< of its nodes, declared or found; 0: of unequal size
  /// In Plan::runs: the first run that trains the same, which is itself where no other does. A
  /// setting that is compared with two baselines is listed twice, and trained once. Runs of
  /// contracts, and those that are compared with each other, are all trained.
  std::size_t trained_as = 0;
};

struct Plan {
  std::vector<Setting> settings;      ///< those that this machine can run
  std::vector<SettingRow> rows;       ///< of each
  std::vector<data::Options> data;    ///< of each: what its runs train on
  std::vector<Check> checks;          ///< of settings that are there
  std::vector<StudyRun> runs;         ///< by setting, then as its seeds are listed
  std::vector<std::string> left_out;  ///< names of settings that need a GPU where there is none
};

/// Description of a run's training: runs with equal texts train the same from the same tokens.
std::string training_of(const Plan& plan, const StudyRun& run);

/// Number of runs that train the same as an earlier one.
std::size_t equal_trainings(const Plan& plan);

/// Resolves `setting` for the ranks of `machine`. Throws Error(usage), beginning with the
/// setting's name.
std::unique_ptr<RunConfig> configure(const Setting& setting, std::uint64_t seed,
                                     const app::Context& context, const comm::Topology& topology);

/// A function of its arguments, the same on all ranks: each team has `team` ranks. Throws
/// Error(usage).
Plan make_plan(const Matrix& matrix, const app::Context& context, std::size_t team);

}  // namespace zeropp::converge
