#include "lib/config/algorithm_choice.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/nearest.hpp"
#include "lib/config/codec_choice.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {
namespace {

const collective::Algorithm& find(const std::vector<collective::Algorithm>& known,
                                  const std::string& name, const char* key) {
  std::vector<std::string> names{"auto"};
  for (const auto& algorithm : known) {
    if (algorithm.name == name) return algorithm;
    names.push_back(algorithm.name);
  }
  refuse("{}: unknown algorithm \"{}\" (nearest: {}; known: {}); zpp_info says what they are", key,
         name, nearest(name, names), fmt::join(names, ", "));
}

[[noreturn]] void refuse_unstable(const char* key, const std::string& name, const char* other) {
  refuse(
      "{} {} does not give the same bits on every run: choose {}, or leave zeropp.deterministic "
      "out",
      key, name, other);
}

/// Whether `auto` may take NCCL's own collectives: they can do what the configuration asks for.
bool is_free_over_nccl(const TrainConfig& c) {
  return c.transport == comm::Transport::nccl && !c.zero.deterministic;
}

/// Whether `auto` takes NCCL's own collectives for uncompressed traffic inside a node: they are the
/// baseline there and go in one chunk.
bool takes_the_vendors(const TrainConfig& c) {
  return is_free_over_nccl(c) && c.zero.pipeline_depth == 1;
}

/// A collective in two levels saves traffic between nodes.
bool has_levels(const Machine& machine) {
  return machine.node_count > 1 && machine.ranks_per_node > 1;
}

/// A node of one rank has one rail for all it sends, and the world is that rail.
bool is_rail(const Machine& machine) {
  return machine.node_count > 1 && machine.ranks_per_node == 1;
}

/// Whether messages between nodes of one rank are to be split over several NCCL communicators
/// (lanes).
bool takes_lanes(const TrainConfig& c, const Machine& machine) {
  const bool several = c.rail_lanes == 0 ? !machine.rdma : c.rail_lanes > 1;
  return is_rail(machine) && c.transport == comm::Transport::nccl && several;
}

/// The machine as one shard group sees it: the ranks that gather weights and reduce gradients
/// together.
Machine shard_group_of(Machine machine, std::size_t size) {
  machine.world_size = static_cast<int>(size);
  machine.ranks_per_node = std::min(machine.world_size, machine.ranks_per_node);
  machine.node_count = machine.world_size / machine.ranks_per_node;
  return machine;
}

/// Whether copy engines are to be used, where an algorithm can.
bool takes_copy_engines(const TrainConfig& c, const Machine& machine) {
  const char* const missing = missing_for_copy_engines(c.transport, machine);
  if (c.copy_engines == comm::CopyEngines::on && missing != nullptr) {
    refuse("zeropp.copy_engines on needs {}: leave it out", missing);
  }
  return c.copy_engines != comm::CopyEngines::off && missing == nullptr;
}

/// Images lie in the engine's arena, which is registered; what is gathered in place does at stage
/// 3, and in one chunk.
bool gathers_in_offered_memory(const TrainConfig& c) {
  return c.zero.quantized_weights || (c.zero.stage == 3 && c.zero.pipeline_depth == 1);
}

/// Whether reductions read and write memory that is offered: whole gradients do from stage 2 on.
bool reduces_in_offered_memory(const TrainConfig& c) {
  return c.zero.quantized_gradients || c.zero.stage >= 2;
}

const char* gather_by_rule(const TrainConfig& c, const Machine& machine) {
  if (has_levels(machine)) return "two-level";
  if (machine.node_count == 1 && takes_copy_engines(c, machine) && gathers_in_offered_memory(c)) {
    return "direct";
  }
  if (takes_lanes(c, machine)) return "direct";
  if (c.zero.quantized_weights && is_free_over_nccl(c)) {
    return c.zero.pipeline_depth == 1 ? "direct" : "native-images";
  }
  return takes_the_vendors(c) ? "native" : "flat";
}

const char* reduce_by_rule(const TrainConfig& c, const Machine& machine) {
  if (c.zero.quantized_gradients) return "2-hop";
  if (c.zero.deterministic) return "ordered";
  if (has_levels(machine)) return "2-hop";
  if (takes_lanes(c, machine)) return "1-hop";
  if (!takes_the_vendors(c) || machine.node_count != 1) return "flat";
  return takes_copy_engines(c, machine) && reduces_in_offered_memory(c) ? "1-hop" : "native";
}

/// The vendor's collectives are modelled.
void refuse_without_vendor(const collective::Algorithm& algorithm, const char* key,
                           const char* others, const Machine& machine) {
  if (!machine.virtual_ranks || !algorithm.traits.modelled) return;
  refuse("{} {} is the vendor's, and virtual ranks have none: choose {}, or leave it out", key,
         algorithm.name, others);
}

void choose_all_gather(TrainConfig& c, const Machine& machine) {
  const char* key = "zeropp.all_gather_algorithm";
  std::string& name = c.zero.all_gather_algorithm;
  const bool differences = c.zero.refreshes_differences();  // else, or beside them, whole weights
  if (zero::is_automatic(name)) name = gather_by_rule(c, machine);
  const collective::Algorithm& algorithm = find(machine.all_gather, name, key);
  refuse_without_vendor(algorithm, key, "flat, direct or two-level", machine);
  if (algorithm.traits.hierarchical && machine.ranks_per_node == 0) {
    refuse("{} {} {}", key, name, kUnequalNodes);
  }
  if (c.zero.deterministic && !algorithm.traits.deterministic) refuse_unstable(key, name, "flat");
  if (c.zero.quantized_weights && !algorithm.traits.any_codec) {
    refuse(
        "{} {} cannot carry {}: choose another, or turn zero_optimization.zero_quantized_weights "
        "off",
        key, name, differences ? "zeropp.weight_difference_codec" : "zeropp.weight_codec");
  }
}

void choose_secondary_gather(TrainConfig& c, const Machine& machine) {
  const bool inside = c.zero.hpz_partition_size <= static_cast<std::size_t>(machine.ranks_per_node);
  c.zero.secondary_gather_algorithm = inside && takes_copy_engines(c, machine) ? "direct"
                                      : takes_the_vendors(c)                   ? "native"
                                                                               : "flat";
}

void choose_reduce_scatter(TrainConfig& c, const std::vector<Option>& given,
                           const Machine& machine) {
  const char* key = "zeropp.reduce_scatter_algorithm";
  std::string& name = c.zero.reduce_scatter_algorithm;
  const bool quantized = c.zero.quantized_gradients;
  if (zero::is_automatic(name)) name = reduce_by_rule(c, machine);
  const collective::Algorithm& algorithm = find(machine.reduce_scatter, name, key);
  refuse_without_vendor(algorithm, key, "ordered, flat, 1-hop or 2-hop", machine);
  if (algorithm.traits.hierarchical && machine.ranks_per_node == 0) {
    refuse("{} {} {}{}", key, name, kUnequalNodes, quantized ? ", or choose 1-hop" : "");
  }
  if (quantized && !algorithm.traits.any_codec) {
    refuse(
        "{} {} cannot carry the gradient codecs: choose 2-hop or 1-hop, or turn "
        "zero_optimization.zero_quantized_gradients off",
        key, name);
  }
  if (c.zero.deterministic && !algorithm.traits.deterministic)
    refuse_unstable(key, name, "ordered");
  if (algorithm.traits.hierarchical || c.zero.shard_group_size != zero::kAllRanks) return;
  if (quantized && is_given(given, "zeropp.gradient_codec_inter") &&
      c.zero.gradient_codec_inter != c.zero.gradient_codec_intra) {
    refuse(
        "zeropp.gradient_codec_inter has no effect with {} {}, which has one hop: leave it out, "
        "or choose 2-hop",
        key, name);
  }
  c.zero.gradient_codec_inter = c.zero.gradient_codec_intra;
}

/// Error feedback is in the hops that the reduction takes on these nodes.
void choose_feedback_hops(TrainConfig& c, const Machine& machine) {
  using zero::FeedbackHops;
  const char* key = "zeropp.error_feedback.hops";
  FeedbackHops& hops = c.zero.error_feedback.hops;
  if (!c.zero.quantized_gradients || hops == FeedbackHops::none) return;
  const std::string& name = c.zero.reduce_scatter_algorithm;
  const collective::Algorithm& algorithm = find(machine.reduce_scatter, name, key);
  if (!algorithm.traits.feedback) {
    refuse(
        "{} {}: zeropp.reduce_scatter_algorithm {} has no hops to feed errors back in; choose "
        "2-hop or 1-hop, or leave it out",
        key, enum_name(hops), name);
  }
  const bool second = algorithm.traits.hierarchical && machine.node_count > 1;
  const bool intra = !second || machine.ranks_per_node > 1;
  const bool inter = second || c.zero.shard_group_size != zero::kAllRanks;
  const FeedbackHops there = intra && inter ? FeedbackHops::both
                             : intra        ? FeedbackHops::intra
                                            : FeedbackHops::inter;
  if (hops == FeedbackHops::both) hops = there;
  if ((hops == FeedbackHops::intra && !intra) || (hops == FeedbackHops::inter && !inter)) {
    refuse(
        "{} {} has no effect: {} on {} nodes of {} ranks has the hop {} only; choose it, or leave "
        "error feedback out",
        key, enum_name(hops), name, machine.node_count, machine.ranks_per_node, enum_name(there));
  }
}

/// The vendor's collectives have a pipeline of their own.
void check_pipeline(const zero::Options& zero, const Machine& machine) {
  if (zero.pipeline_depth == 1) return;
  if (find(machine.all_gather, zero.all_gather_algorithm, "").traits.one_chunk &&
      find(machine.reduce_scatter, zero.reduce_scatter_algorithm, "").traits.one_chunk) {
    refuse(
        "zeropp.pipeline_depth {} would have no effect: {} and {} are the vendor's, with a "
        "pipeline "
        "of their own; choose another algorithm, or leave it out",
        zero.pipeline_depth, zero.all_gather_algorithm, zero.reduce_scatter_algorithm);
  }
}

void settle_copy_engines(TrainConfig& c, const Machine& whole, const Machine& machine) {
  const zero::Options& zero = c.zero;
  const bool one_node = machine.node_count == 1;
  // Algorithms of several levels send images inside nodes, and images lie in the arena.
  const auto inside_nodes = [&](const collective::Algorithm& algorithm, bool registered) {
    return algorithm.traits.to_everyone && (one_node ? registered : algorithm.traits.hierarchical);
  };
  const bool used =
      inside_nodes(find(machine.all_gather, zero.all_gather_algorithm, ""),
                   gathers_in_offered_memory(c)) ||
      (zero.hpz_partition_size > 1 &&
       zero.hpz_partition_size <= static_cast<std::size_t>(machine.ranks_per_node) &&
       find(machine.all_gather, zero.secondary_gather_algorithm, "").traits.to_everyone) ||
      inside_nodes(find(machine.reduce_scatter, zero.reduce_scatter_algorithm, ""),
                   reduces_in_offered_memory(c));
  if (c.copy_engines == comm::CopyEngines::on && !used) {
    refuse(
        "zeropp.copy_engines on would have no effect with {} and {} on {} nodes, stage {} and "
        "pipeline_depth {}: choose direct or 1-hop on one node, two-level or 2-hop on several, or "
        "leave it out",
        zero.all_gather_algorithm, zero.reduce_scatter_algorithm, machine.node_count, zero.stage,
        zero.pipeline_depth);
  }
  c.copy_engines =
      used && takes_copy_engines(c, whole) ? comm::CopyEngines::on : comm::CopyEngines::off;
}

void choose_rail_lanes(TrainConfig& c, const Machine& machine, const Machine& sharding) {
  const bool replicas =
      c.zero.shard_group_size != zero::kAllRanks && sharding.node_count < machine.node_count;
  const auto sends_on_rails = [&](const collective::Algorithm& algorithm) {
    return has_levels(sharding) ? algorithm.traits.hierarchical
                                : is_rail(sharding) && !algorithm.traits.modelled;
  };
  const bool shards =
      sends_on_rails(find(machine.all_gather, c.zero.all_gather_algorithm, "")) ||
      sends_on_rails(find(machine.reduce_scatter, c.zero.reduce_scatter_algorithm, ""));
  const bool differences = c.zero.exchanges_differences();
  const bool rails = c.transport == comm::Transport::nccl && (replicas || shards || differences);
  if (c.rail_lanes == 0) {
    c.rail_lanes = rails ? typical_rail_lanes(machine) : 1;
  } else if (c.rail_lanes > 1 && !rails) {
    refuse(
        "zeropp.rail_lanes {} would have no effect: over nccl, on several nodes, only two-level "
        "and 2-hop, where each has one rank all but the vendor's, weight differences, and sums "
        "over shard groups send on rails; leave it out",
        c.rail_lanes);
  }
}

}  // namespace

std::size_t typical_rail_lanes(const Machine& machine) {
  if (machine.rdma) return 1;
  return machine.ranks_per_node == 1 ? 8 : 4;
}

const char* missing_for_copy_engines(const std::optional<comm::Transport>& transport,
                                     const Machine& machine) {
  if (transport != comm::Transport::nccl) return "the transport nccl";
  if (machine.ranks_per_node <= 1 || machine.world_size == 1) return "nodes of several ranks";
  if (machine.copy_engines) return nullptr;
  return "NCCL 2.28.3 or later with memory handles (NCCL_CUMEM_ENABLE) and windows "
         "(NCCL_WIN_ENABLE), and NVLink between the GPUs of a node, of which every rank sees all";
}

void choose_algorithms(TrainConfig& config, const std::vector<Option>& given,
                       const Machine& whole) {
  const bool grouped = config.zero.shard_group_size != zero::kAllRanks;
  const Machine machine = grouped ? shard_group_of(whole, config.zero.shard_group_size) : whole;
  choose_all_gather(config, machine);
  choose_secondary_gather(config, machine);
  choose_reduce_scatter(config, given, machine);
  choose_feedback_hops(config, machine);
  resolve_codec_choice(
      config, grouped || find(machine.reduce_scatter, config.zero.reduce_scatter_algorithm, "")
                             .traits.hierarchical);
  if (!grouped) check_pipeline(config.zero, machine);
  choose_rail_lanes(config, whole, machine);
  settle_copy_engines(config, whole, machine);
}

}  // namespace zeropp::config
