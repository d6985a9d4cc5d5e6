#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/collective/all_gather_base.hpp"
#include "lib/collective/description.hpp"
#include "lib/collective/entries.hpp"
#include "lib/collective/require.hpp"

namespace zeropp::collective {

namespace {

template <class Algorithm>
std::vector<const Algorithm*> sorted(std::vector<const Algorithm*> found) {
  std::ranges::sort(found, {}, [](const Algorithm* entry) { return entry->name; });
  return found;
}

template <class Algorithm>
const Algorithm& find(const char* operation, std::string_view name,
                      const std::vector<const Algorithm*>& known) {
  std::vector<std::string> names;
  for (const Algorithm* entry : known) {
    if (entry->name == name) return *entry;
    names.emplace_back(entry->name);
  }
  throw Error(ExitCode::usage,
              fmt::format("unknown {} algorithm '{}', the nearest known is '{}' (known: {})",
                          operation, name, nearest(name, names), fmt::join(names, ", ")));
}

/// Facts of the ranks that refusals need: their topology, and whether the group is the one whose
/// nodes and rails a hierarchical algorithm uses.
struct GroupInJob {
  const comm::Topology& topology;
  std::string name;
  bool is_world;
};

GroupInJob group_in_job(const Ranks& ranks) {
  return {ranks.levels.topology, ranks.group.name, ranks.group == ranks.levels.world};
}

/// Facts of a context's group, which is found without shapes: these take a look at every rank. A
/// world of other groups is not the same one.
GroupInJob group_in_job(const Context& context) {
  return {context.groups.topology, context.group.name(),
          &context.group == context.groups.world.get()};
}

template <class Algorithm>
void require_possible(const char* operation, const Algorithm& algorithm, const GroupInJob& group,
                      const codec::CodecSpec& codec, const Parts& parts, std::size_t depth) {
  if (!algorithm.traits.any_codec && codec != codec::CodecSpec{}) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} algorithm '{}' carries no codec but 'none', not '{}': choose another "
                    "algorithm or 'none'",
                    operation, algorithm.name, codec::to_string(codec)));
  }
  if (depth == 0) {
    throw Error(ExitCode::usage,
                fmt::format("{}: a pipeline depth of 0 moves nothing: give 1 (no pipeline) or more",
                            operation));
  }
  if (parts.stride < parts.count) {
    throw std::invalid_argument(fmt::format("{}: parts of {} elements overlap at a stride of {}",
                                            operation, parts.count, parts.stride));
  }
  if (!algorithm.traits.hierarchical) return;
  if (!group.topology.uniform()) {
    throw Error(
        ExitCode::environment,
        fmt::format("{} algorithm '{}' needs nodes of equal size, this job has {}: start the "
                    "same number of ranks on every node, declare a node size, or choose "
                    "'flat'",
                    operation, algorithm.name, group.topology.describe()));
  }
  if (!group.is_world) {
    throw Error(ExitCode::usage,
                fmt::format("{} algorithm '{}' runs on all ranks, not on group '{}': choose 'flat'",
                            operation, algorithm.name, group.name));
  }
}

void require_possible(const AllGatherAlgorithm& entry, const GroupInJob& group,
                      const AllGatherPlan& plan) {
  require_possible("all-gather", entry, group, plan.codec, plan.parts, plan.depth);
  require_one_chunk("all-gather", plan.codec, plan.depth);
  if (plan.feedback && !entry.traits.any_codec) {
    throw Error(
        ExitCode::usage,
        fmt::format("all-gather algorithm '{}' encodes nothing that error feedback could be "
                    "of: choose direct, or leave error feedback out",
                    entry.name));
  }
}

void require_possible(const ReduceScatterAlgorithm& entry, const GroupInJob& group,
                      const ReduceScatterPlan& plan) {
  require_possible("reduce-scatter", entry, group, plan.codec_first, plan.parts, plan.depth);
  require_one_chunk("reduce-scatter", plan.codec_first, plan.depth);
  if (entry.traits.hierarchical) require_one_chunk("reduce-scatter", plan.codec_second, plan.depth);
  if (plan.feedback && !entry.traits.feedback) {
    throw Error(ExitCode::usage,
                fmt::format("reduce-scatter algorithm '{}' has no hops that error feedback could "
                            "be in: choose 2-hop or 1-hop, or leave error feedback out",
                            entry.name));
  }
}

/// Refuses feedback without a state, which a run needs.
void require_state(const char* operation, const std::optional<Feedback>& feedback) {
  if (feedback && feedback->errors == nullptr)
    throw std::logic_error(fmt::format("{}: error feedback without its state", operation));
}

void require_own_memory(const char* operation, const Context& context) {
  if (context.groups.memory != context.device.memory) {
    throw std::logic_error(
        fmt::format("{}: its groups were made for the memory of another device", operation));
  }
}

/// Binding a codec throws std::invalid_argument; to a user that is a wrong option.
template <class Plan>
auto as_usage_error(Plan&& plan) {
  try {
    return plan();
  } catch (const std::invalid_argument& refusal) {
    throw Error(ExitCode::usage, refusal.what());
  }
}

}  // namespace

const std::vector<const AllGatherAlgorithm*>& all_gather_algorithms() {
  static const auto list = sorted<AllGatherAlgorithm>({
#define ZEROPP_ENTRY(stem) &all_gather_##stem,
#include "all_gather_algorithms.inc"
#undef ZEROPP_ENTRY
  });
  return list;
}

const std::vector<const ReduceScatterAlgorithm*>& reduce_scatter_algorithms() {
  static const auto list = sorted<ReduceScatterAlgorithm>({
#define ZEROPP_ENTRY(stem) &reduce_scatter_##stem,
#include "reduce_scatter_algorithms.inc"
#undef ZEROPP_ENTRY
  });
  return list;
}

const AllGatherAlgorithm& find_all_gather(std::string_view algorithm) {
  return find("all-gather", algorithm, all_gather_algorithms());
}

const ReduceScatterAlgorithm& find_reduce_scatter(std::string_view algorithm) {
  return find("reduce-scatter", algorithm, reduce_scatter_algorithms());
}

const Traits& all_gather_traits(std::string_view algorithm) {
  return find_all_gather(algorithm).traits;
}

const Traits& reduce_scatter_traits(std::string_view algorithm) {
  return find_reduce_scatter(algorithm).traits;
}

std::vector<Chunk> image_chunks(const Traits& traits, const AllGatherPlan& plan) {
  return chunk_plan(plan.parts.count, traits.one_chunk ? 1 : plan.depth,
                    codec::Codec(plan.codec, plan.memory).block());
}

std::vector<Chunk> image_chunks(std::string_view all_gather, const AllGatherPlan& plan) {
  return image_chunks(find_all_gather(all_gather).traits, plan);
}

Ranks ranks_of(const Context& context) { return {context.groups.levels(), context.group.shape()}; }

Description describe_all_gather(std::string_view algorithm, const Ranks& ranks,
                                const AllGatherPlan& plan) {
  const auto& entry = find_all_gather(algorithm);
  require_possible(entry, group_in_job(ranks), plan);
  return as_usage_error([&] { return describe(entry, ranks, plan); });
}

Description describe_reduce_scatter(std::string_view algorithm, const Ranks& ranks,
                                    const ReduceScatterPlan& plan) {
  const auto& entry = find_reduce_scatter(algorithm);
  require_possible(entry, group_in_job(ranks), plan);
  return as_usage_error([&] { return entry.describe(ranks, plan); });
}

std::unique_ptr<AllGather> plan_all_gather(std::string_view algorithm, const Context& context,
                                           const AllGatherPlan& plan) {
  const auto& entry = find_all_gather(algorithm);
  require_own_memory("all-gather", context);
  require_state("all-gather", plan.feedback);
  require_possible(entry, group_in_job(context), plan);
  return as_usage_error([&] { return entry.plan(context, plan); });
}

std::unique_ptr<ReduceScatter> plan_reduce_scatter(std::string_view algorithm,
                                                   const Context& context,
                                                   const ReduceScatterPlan& plan) {
  const auto& entry = find_reduce_scatter(algorithm);
  require_own_memory("reduce-scatter", context);
  require_state("reduce-scatter", plan.feedback);
  require_possible(entry, group_in_job(context), plan);
  return as_usage_error([&] { return entry.plan(context, plan); });
}

}  // namespace zeropp::collective
