// The run that is planned: the trainer's configuration, and the ranks that it is to have. Its
// options are those of zpp_train, and a few of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/comm/topology.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::plan_app {

struct Job {
  config::TrainConfig config;
  std::size_t nodes = 1;
  std::size_t ranks_per_node = 0;  ///< 0: the declared zeropp.node_size, or 8
  std::size_t step = 0;            ///< steps before the one that is planned
  std::string model_preset;        ///< of lib/plan/model_presets.hpp; empty: none
  std::string hf_config;           ///< file of lib/plan/hf_config.hpp; empty: none
  std::string hf_dtype;            ///< of the weights that it is of; empty: it does not say
};

/// Number of ranks a node where nothing says how many there are.
inline constexpr std::size_t kUsualRanksPerNode = 8;
/// Number of ranks a node that flags or the configuration declare.
std::optional<std::size_t> declared_ranks_per_node(const Job& job);

/// Every option, bound to `job`, which outlives the table.
std::vector<config::Option> options(Job& job);

/// Completes job.ranks_per_node. Throws Error(usage) where zeropp.node_size contradicts it, or
/// ranks or layers are too many to be planned one by one.
comm::Topology topology_of(Job& job);

/// Takes what other options follow from, first of all: the sizes that --model-preset or --hf-config
/// names, but for those that `given` decides; the precision that "auto" stands for; and the step,
/// unless `given` says which: the second with weight differences at stage 3, for the first one
/// sends whole weights, and with evaluations, for one is before the first. Throws Error: for both
/// names, for a model that is no transformer, where the file cannot be read, where nobody gave the
/// size of a transformer, and for a flag that names weights to begin with.
void take_job(Job& job, const std::vector<config::Option>& given);

/// What is planned where nobody says it, each in a line of its own: the batch, the vocabulary, and
/// whether the planned step comes after an evaluation.
std::string assumptions_text(const Job& job, const std::vector<config::Option>& given);

/// Whether the options come from a file for DeepSpeed: one without a section of ours.
bool is_of_deepspeed(const std::vector<config::Option>& given);

/// A line about the limits of stage 3 that a file for DeepSpeed leaves out, where DeepSpeed's
/// defaults would give `run`, which is called `name`, another schedule: with what that sends and
/// needs. Else empty.
std::string limits_text(const plan::PlannedRun& run, std::string_view name,
                        const std::vector<config::Option>& given);

/// Machine that a configuration is resolved against: nodes with a GPU for every rank, a network
/// with RDMA or of sockets, and all that is registered in this build.
config::Machine machine_for(const comm::Topology& topology, bool rdma = true);

/// Whether zpp_train would refuse the run by zeropp.device_memory_limit.
bool exceeds_limit(const plan::PlannedRun& run);
/// Says so in one line.
void warn_of_limit(const plan::PlannedRun& run);

/// Prints what zpp_train says of hpZ that saves nothing, or crosses nodes.
void warn_of_hpz(const plan::PlannedRun& run);

}  // namespace zeropp::plan_app
