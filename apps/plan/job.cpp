#include "apps/plan/job.hpp"

#include <fmt/format.h>

#include <limits>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/config/options.hpp"
#include "lib/plan/planning_groups.hpp"

namespace zeropp::plan {

namespace {
constexpr std::size_t kUsualRanksPerNode = 8;
constexpr double kMostRanks = std::numeric_limits<int>::max();
/// Every rank of a node is planned, and every layer.
constexpr double kMostRanksPerNode = 4096;
constexpr std::size_t kMostLayers = 100'000;
}  // namespace

std::vector<config::Option> options(Job& job) {
  std::vector<config::Option> table{{.path = "plan.nodes",
                                     .flag = "--nodes",
                                     .field = &job.nodes,
                                     .help = "Nodes of the cluster",
                                     .range = config::between(1, kMostRanks)},
                                    {.path = "plan.ranks_per_node",
                                     .flag = "--ranks-per-node",
                                     .field = &job.ranks_per_node,
                                     .help = "Ranks, and with the back end cuda GPUs, of a node; "
                                             "0: as zeropp.node_size says, or 8",
                                     .range = config::between(0, kMostRanksPerNode)},
                                    {.path = "plan.step",
                                     .flag = "--step",
                                     .field = &job.step,
                                     .help = "Steps before the one that is planned: decides where "
                                             "zeropp.codec_schedule changes codecs",
                                     .unit = "steps"}};
  for (config::Option& option : config::options(job.config)) table.push_back(std::move(option));
  return table;
}

comm::Topology topology_of(Job& job) {
  if (job.config.model.num_layers > kMostLayers) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.num_layers {} is more than the {} that can be planned: "
                            "lower --num-layers",
                            job.config.model.num_layers, kMostLayers));
  }
  const std::size_t declared = job.config.node_size;
  if (job.ranks_per_node == 0) job.ranks_per_node = declared == 0 ? kUsualRanksPerNode : declared;
  if (static_cast<double>(job.ranks_per_node) > kMostRanksPerNode) {
    throw Error(ExitCode::usage,
                fmt::format("nodes of {} ranks are larger than those of {} that can be planned: "
                            "lower --ranks-per-node, --node-size or the cluster's gpus_per_node",
                            job.ranks_per_node, kMostRanksPerNode));
  }
  if (declared != 0 && declared != job.ranks_per_node) {
    throw Error(
        ExitCode::usage,
        fmt::format("zeropp.node_size {} and plan.ranks_per_node {} are of one thing: leave "
                    "one of --node-size and --ranks-per-node out",
                    declared, job.ranks_per_node));
  }
  return planned_topology(job.nodes, job.ranks_per_node);
}

void warn_of_default_model(const Job& job, const std::vector<config::Option>& given) {
  const model::Options& model = job.config.model;
  if (!model::is_transformer(model)) return;
  for (const char* path : {"zeropp.model.num_layers", "zeropp.model.hidden_size"}) {
    if (config::is_given(given, path)) return;
  }
  log::warn(fmt::format(
      "no size of a model is given (a configuration of DeepSpeed's holds none): what is "
      "planned is the default, {} of --num-layers {} --hidden-size {}: give these, "
      "--num-attention-heads, --seq-length and --vocab-size",
      model.name, model.num_layers, model.hidden_size));
}

config::Machine machine_for(const comm::Topology& topology, bool rdma) {
  app::GpuPlacement gpus;
  gpus.every_rank = true;
  gpus.own = true;
  gpus.rdma = rdma;
  gpus.copy_engines = true;
  return app::machine_of(topology, gpus);
}

}  // namespace zeropp::plan
