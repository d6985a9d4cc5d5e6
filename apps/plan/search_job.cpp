#include "apps/plan/search_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/text.hpp"
#include "lib/base/units.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/options.hpp"

namespace zeropp::plan_app {

namespace {

std::size_t number_of(std::string_view text) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value == 0) {
    throw Error(ExitCode::usage,
                fmt::format("--nodes takes numbers of nodes with commas between, as 1,2,4, not "
                            "\"{}\": see --help",
                            text));
  }
  return value;
}

template <class Value, class Keep>
std::vector<Value> kept(std::vector<Value> values, const Keep& keep) {
  std::erase_if(values, [&](const Value& value) { return !keep(value); });
  return values;
}

/// Calls body(options of ZeRO, whether activations are computed again) for all that decides in a
/// space which options have an effect, in nodes of `ranks_per_node` ranks.
template <class Body>
void for_each_kind(const plan::SearchSpace& space, const config::TrainConfig& base,
                   std::size_t ranks_per_node, const Body& body) {
  zero::Options zero = base.zero;
  for (const int stage : space.stages) {
    zero.stage = stage;
    for (const std::size_t hpz : space.hpz_sizes) {
      zero.hpz_partition_size = hpz == zero::kNodeOfRanks ? ranks_per_node : hpz;
      for (const plan::WeightChoice& weights : space.weights) {
        zero.quantized_weights = weights.quantized();
        zero.weight_differences.enabled = weights.differences.has_value();
        // Elsewhere they are refused at stage 3, and have no copies that an option could be about.
        if (zero.exchanges_differences() && zero.hpz_partition_size != ranks_per_node) continue;
        for (const plan::GradientChoice& gradients : space.gradient_codecs) {
          zero.quantized_gradients = gradients.intra != codec::CodecSpec{};
          for (const bool recompute : space.recompute) body(zero, recompute);
        }
      }
    }
  }
}

}  // namespace

std::vector<config::Option> options(SearchJob& asked) {
  std::vector<config::Option> table{
      {.path = "plan.nodes",
       .flag = "--nodes",
       .field = &asked.nodes,
       .help = "Nodes of the cluster; several numbers with commas between are searched in turn; "
               "empty: those of plan.cluster, or 1"},
      {.path = "plan.goal",
       .flag = "--goal",
       .field = &asked.goal,
       .help =
           "Quantity that the first configuration has least of; bytes across nodes, memory of "
           "a rank, or, with plan.cluster, time of a step; without the flag, bytes, and time on "
           "one node of a plan.cluster, where nothing crosses nodes"},
      memory_limit_option(asked.memory_limit),
      {.path = "plan.minimum_weight_bits",
       .flag = "--minimum-weight-bits",
       .field = &asked.minimum_weight_bits,
       .help = "Fewest bits of a whole weight on the wire; scales are included. The "
               "default does not hold where a weight codec is given. Bits of a weight difference "
               "do not count: a difference loses less in as many",
       .unit = "bits",
       .range = config::between(0, 32)},
      {.path = "plan.minimum_gradient_bits",
       .flag = "--minimum-gradient-bits",
       .field = &asked.minimum_gradient_bits,
       .help = "Fewest bits of a gradient on every hop, scales included",
       .unit = "bits",
       .range = config::between(0, 32)},
      {.path = "plan.rows",
       .flag = "--rows",
       .field = &asked.rows,
       .help = "Rows of each printed table; --json and the trace have all",
       .range = config::at_least(1)},
      {.path = "plan.wide",
       .flag = "--wide",
       .field = &asked.wide,
       .help = "Printed tables with algorithms and bytes inside nodes, too"}};
  for (config::Option& option : options(asked.base)) {
    if (option.path != "plan.nodes" && option.path != "plan.step") {
      table.push_back(std::move(option));
    }
  }
  return table;
}

void take_cluster(SearchJob& asked, const std::vector<config::Option>& given) {
  if (asked.goal == Goal::time && !asked.base.source.is_named()) {
    throw Error(ExitCode::usage,
                "--goal time needs a cluster: give --cluster with a file of inputs/clusters, or "
                "--gpu and --node-gbit");
  }
  take_cluster(asked.base, given);
}

void choose_goal(SearchJob& asked, const std::vector<config::Option>& given,
                 const std::vector<comm::Topology>& topologies) {
  const bool crosses_nodes = std::ranges::any_of(
      topologies, [](const comm::Topology& topology) { return topology.node_count > 1; });
  if (config::is_given(given, "plan.goal") || crosses_nodes || !asked.base.source.is_named())
    return;
  asked.goal = Goal::time;
  log::info("no --goal: rows are in the order of their time, since nothing crosses nodes");
}

std::vector<comm::Topology> topologies_of(SearchJob& asked,
                                          const std::vector<config::Option>& given) {
  Job& job = asked.base.job;
  std::vector<std::size_t> numbers;
  if (config::is_given(given, "plan.nodes")) {
    std::ranges::transform(split(asked.nodes, ','), std::back_inserter(numbers), number_of);
    job.nodes = std::ranges::max(numbers);
  }
  if (asked.base.source.is_named()) (void)topology_on_cluster(asked.base, given);
  if (numbers.empty()) {
    numbers = {job.nodes};
    asked.nodes = std::to_string(job.nodes);
  }
  std::vector<comm::Topology> found;
  for (const std::size_t nodes : numbers) {
    job.nodes = nodes;
    found.push_back(topology_of(job));
  }
  return found;
}

void take_limits(SearchJob& asked, const std::vector<config::Option>& given) {
  take_memory_limit(asked.memory_limit, asked.base, given);
  if (config::is_given(given, "zeropp.weight_codec") &&
      !config::is_given(given, "plan.minimum_weight_bits")) {
    asked.minimum_weight_bits = 0;
  }
}

plan::SearchSpace space_of(const SearchJob& asked, const std::vector<config::Option>& given,
                           const comm::Topology& topology, const config::Machine& machine) {
  const config::TrainConfig& config = asked.base.job.config;
  const zero::Options& zero = config.zero;
  const auto is = [&](const char* path) { return config::is_given(given, path); };
  plan::SearchSpace space = plan::whole_space(config, topology, machine);
  if (is("zero_optimization.stage")) space.stages = {zero.stage};
  if (is("zeropp.weight_codec")) {
    space.weights = {{}, {zero.weight_codec}, {zero.weight_codec, zero.weight_differences.codec}};
    if (zero.weight_codec == codec::CodecSpec{}) space.weights.erase(space.weights.begin());
  }
  if (is("zero_optimization.zero_quantized_weights")) {
    space.weights = kept(space.weights, [&](const plan::WeightChoice& weights) {
      return weights.quantized() == zero.quantized_weights;
    });
  }
  if (is("zeropp.weight_differences")) {
    space.weights = kept(space.weights, [&](const plan::WeightChoice& weights) {
      return weights.differences.has_value() == zero.weight_differences.enabled;
    });
  }
  if (is("zeropp.gradient_codec_intra") || is("zeropp.gradient_codec_inter")) {
    space.gradient_codecs = {{}, {zero.gradient_codec_intra, zero.gradient_codec_inter}};
  }
  if (is("zero_optimization.zero_quantized_gradients")) {
    space.gradient_codecs = kept(space.gradient_codecs, [&](const plan::GradientChoice& codecs) {
      return (codecs.intra != codec::CodecSpec{}) == zero.quantized_gradients;
    });
  }
  if (is("zero_optimization.zero_hpz_partition_size")) space.hpz_sizes = {zero.hpz_partition_size};
  if (is("zeropp.all_gather_algorithm")) space.all_gathers = {zero.all_gather_algorithm};
  if (is("zeropp.reduce_scatter_algorithm")) {
    space.reduce_scatters = {zero.reduce_scatter_algorithm};
  }
  if (is("zeropp.shard_group_size")) {
    const bool of_all = zero.shard_group_size == static_cast<std::size_t>(topology.world_size);
    space.shard_groups = {of_all ? zero::kAllRanks : zero.shard_group_size};
  }
  if (is("zeropp.model.recompute_activations")) {
    space.recompute = {config.model.recompute_activations};
  }
  return space;
}

void check_effects(SearchJob& asked, const std::vector<config::Option>& given,
                   const std::vector<comm::Topology>& topologies) {
  std::vector<config::Option> idle = given;
  config::TrainConfig& config = asked.base.job.config;  // which `given` is bound to
  const config::TrainConfig base = config;
  for (const comm::Topology& topology : topologies) {
    const plan::SearchSpace space =
        space_of(asked, given, topology, machine_for(asked.base, topology));
    const auto ranks_per_node = static_cast<std::size_t>(topology.ranks_per_node);
    for_each_kind(space, base, ranks_per_node, [&](const zero::Options& zero, bool recompute) {
      config.zero = zero;
      config.model.recompute_activations = recompute;
      std::erase_if(idle, [](const auto& option) { return !config::is_without_effect(option); });
    });
    config = base;
  }
  config::check_effects(idle);
}

plan::SearchLimits limits_of(const SearchJob& asked) {
  return {.memory = static_cast<std::size_t>(asked.memory_limit * kGibibyte),
          .weight_bits = asked.minimum_weight_bits,
          .gradient_bits = asked.minimum_gradient_bits};
}

}  // namespace zeropp::plan_app
