// Resolution of a configuration, from what was asked to what will run: decides `auto`, completes
// the batch triple, and refuses every combination that does not exist. A function of its arguments
// alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/collective/traits.hpp"
#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Machine that the configuration will run on, and what there is to choose from.
struct Machine {
  int world_size = 1;
  int node_count = 1;
  int ranks_per_node = 1;      ///< 0: nodes hold different numbers of ranks
  bool virtual_ranks = false;  ///< ranks are threads of one process
  bool gpus = false;           ///< every rank sees a GPU
  bool own_gpus = false;       ///< every rank has a GPU for itself
  bool rdma = false;  ///< NCCL finds InfiniBand or RoCE between nodes, else it takes sockets
  bool copy_engines = false;  ///< NCCL can let the GPUs of a node copy into each other's memory
  std::string gpu_problem;    ///< unless own_gpus: what is missing, and the remedy
  std::vector<collective::Algorithm> all_gather;
  std::vector<collective::Algorithm> reduce_scatter;
  /// Throw Error(usage) for a model or a token source that does not exist or cannot be as asked.
  std::function<void(const model::Options&)> check_model;
  std::function<void(const data::Options&)> check_data;
};

/// The thing that is missing for messages inside nodes to go by copy engines over `transport`, in
/// words for "needs ..."; null: nothing.
const char* missing_for_copy_engines(const std::optional<comm::Transport>& transport,
                                     const Machine& machine);

/// Lanes of a rail over nccl (lib/comm/lanes.hpp) where nothing is said. They are of use where a
/// host's thread copies what goes to other nodes, not where the network's hardware does; the rails
/// of a node share its cores.
std::size_t typical_rail_lanes(const Machine& machine);

/// `given` says which options the user set. Throws Error(usage): what, where, remedy; and
/// Error(environment) where GPUs are asked for that are not there. On return no value is `auto`, no
/// batch size is 0, and zero.compute, zero.accumulation_steps and zero.seed are set. Reduction
/// algorithms with one hop get gradient_codec_inter = gradient_codec_intra, and
/// zero.error_feedback.hops names the hops that there are.
void resolve(TrainConfig& config, const std::vector<Option>& given, const Machine& machine);

/// Throws Error(usage) where units cannot be updated during backward as `config` asks: an update
/// there cannot wait for what the gradients of all units, or of later micro-steps, decide; and
/// reads them from memory that other units take next.
void check_update_in_backward(const TrainConfig& config);

/// Throws Error(usage) where `config`, whose hpZ size is resolved, asks for weight differences that
/// cannot be on `machine`, of which the numbers of ranks and nodes are read.
void check_weight_differences(const TrainConfig& config, const Machine& machine);

}  // namespace zeropp::config
