#include "apps/plan/cluster_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/error.hpp"
#include "lib/plan/sold_gpus.hpp"

namespace zeropp::plan_app {

namespace {
constexpr const char* kNodeGbit = "plan.node_gbit";
constexpr const char* kNodeLinks = "plan.node_links";

/// Whether one node is planned: nothing crosses its links. A search has its nodes as text.
bool is_of_one_node(const std::vector<config::Option>& given) {
  const auto nodes = std::ranges::find(given, "plan.nodes", &config::Option::path);
  if (nodes == given.end() || !nodes->given) return false;
  const nlohmann::json value = config::value_of(*nodes);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() == 1 && text.front() == '1';
}
}  // namespace

std::vector<config::Option> options(ClusterSource& source) {
  const auto of_gpu = [&source](config::Option option) {
    option.in_effect = [&source] { return !source.gpu.empty(); };
    option.effect_needs = "--gpu";
    return option;
  };
  return {
      {.path = "plan.cluster",
       .flag = "--cluster",
       .field = &source.file,
       .help = "JSON file that describes the cluster, as inputs/clusters has them"},
      {.path = "plan.gpu",
       .flag = "--gpu",
       .field = &source.gpu,
       .help = "GPU of the cluster, instead of a file; its rates are the data sheet's, times the "
               "share that such GPUs reach",
       .choices = plan::sold_gpu_names(),
       .in_effect = [&source] { return !source.gpu.empty(); }},
      of_gpu({.path = kNodeGbit,
              .flag = "--node-gbit",
              .field = &source.node_gbit,
              .help = "Gbit/s that all links of a node carry together; one direction, as sold; one "
                      "node needs none",
              .unit = "Gbit/s",
              .range = config::between(0.001, 1e6)}),
      of_gpu({.path = kNodeLinks,
              .flag = "--node-links",
              .field = &source.node_links,
              .help = "Links that --node-gbit is spread over",
              .range = config::between(1, 1024)})};
}

void check(const ClusterSource& source, const std::vector<config::Option>& given) {
  if (!source.file.empty() && !source.gpu.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("--cluster {} and --gpu {} both describe the cluster: leave one out",
                            source.file, source.gpu));
  }
  if (!source.gpu.empty() && source.node_gbit == 0 && !is_of_one_node(given)) {
    throw Error(
        ExitCode::usage,
        fmt::format("--node-gbit is missing: --gpu {} needs what the links of a node carry "
                    "together, in Gbit/s as sold: --node-gbit 400; time and search of one node, "
                    "--nodes 1, need none",
                    source.gpu));
  }
  if (!source.gpu.empty() && source.node_gbit == 0 && config::is_given(given, kNodeLinks)) {
    throw Error(ExitCode::usage,
                "plan.node_links (--node-links) would have no effect without --node-gbit: give "
                "that, or leave it out");
  }
  if (!source.gpu.empty()) return;
  for (const char* path : {kNodeGbit, kNodeLinks}) {
    if (!config::is_given(given, path)) continue;
    throw Error(ExitCode::usage,
                fmt::format("{} would have no effect without --gpu: give that, or leave it out "
                            "(--rail-gb-per-s replaces the rate of a cluster file)",
                            path));
  }
}

plan::Cluster read(const ClusterSource& source, std::size_t gpus_per_node) {
  if (!source.file.empty()) return plan::read_cluster(source.file);
  return plan::sold_cluster({.gpu = source.gpu,
                             .gpus_per_node = gpus_per_node,
                             .node_gbit = source.node_gbit,
                             .node_links = source.node_links});
}

}  // namespace zeropp::plan_app
