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
  std::string hf_dtype;            ///< of the weights, as that file has it; empty: it has none
};

/// Number of ranks per node where nothing says how many there are.
inline constexpr std::size_t kUsualRanksPerNode = 8;
/// Number of ranks per node that flags or the configuration declare.
std::optional<std::size_t> declared_ranks_per_node(const Job& job);

/// Every option, bound to `job`, which outlives the table.
std::vector<config::Option> options(Job& job);

/// Completes job.ranks_per_node. Throws Error(usage) where zeropp.node_size contradicts it, or
/// ranks or layers are too many to be planned one by one.
comm::Topology topology_of(Job& job);

/// Takes the values that other options follow from, before all others: the sizes that
/// --model-preset or --hf-config names, unless `given` decides them; the precision that "auto"
/// stands for; and the step, unless `given` names it. The step is the second one with weight
/// differences at stage 3, since the first sends whole weights, and with evaluations, since one
/// comes before the first step. Throws Error: for both names, for a model that is no transformer,
/// where the file cannot be read, where nobody gave the size of a transformer, and for a flag that
/// names weights to begin with.
void take_job(Job& job, const std::vector<config::Option>& given);

/// Assumptions about values that nobody gave, one per line: the batch, the vocabulary, and whether
/// the planned step comes after an evaluation.
std::string assumptions_text(const Job& job, const std::vector<config::Option>& given);

/// Whether the options come from a file for DeepSpeed: one without a section of ours.
bool is_of_deepspeed(const std::vector<config::Option>& given);

/// A line about the limits of stage 3 that a file for DeepSpeed leaves out, where `run`, which is
/// called `name`, has another schedule with DeepSpeed's defaults. The line has the bytes that this
/// schedule sends and the memory that it needs. Empty otherwise.
std::string limits_text(const plan::PlannedRun& run, std::string_view name,
                        const std::vector<config::Option>& given);

/// Machine that a configuration is resolved against: nodes with a GPU for every rank, a network
/// with RDMA or of sockets, and all that is registered in this build.
config::Machine machine_for(const comm::Topology& topology, bool rdma = true);

/// Whether zpp_train would refuse the run by zeropp.device_memory_limit.
bool exceeds_limit(const plan::PlannedRun& run);
/// Warns in one line that zpp_train would refuse the run.
void warn_of_limit(const plan::PlannedRun& run);

/// Prints the warnings of zpp_train about hpZ that saves nothing or crosses nodes.
void warn_of_hpz(const plan::PlannedRun& run);

}  // namespace zeropp::plan_app
