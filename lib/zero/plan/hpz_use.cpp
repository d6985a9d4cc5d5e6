#include "lib/zero/plan/hpz_use.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeropp::zero {

bool gathers_secondary(const Schedule& schedule) {
  return std::ranges::find(schedule.ops, OpKind::gather_secondary, &Op::kind) != schedule.ops.end();
}

namespace {

bool gathers_secondary(const ScheduleInput& input) {
  return gathers_secondary(make_step_schedule(input, false));
}

/// The limits that have to be lower for the weights to be gathered again, in words.
std::string keeping_limits(const Options& options, const ScheduleInput& input) {
  ScheduleInput only_persistence = input;
  only_persistence.reuse_elements = 0;
  ScheduleInput only_reuse = input;
  for (UnitPartition& unit : only_reuse.units) unit.persistent = false;
  const bool persistence_keeps = !gathers_secondary(only_persistence);
  const bool reuse_keeps = !gathers_secondary(only_reuse);
  const std::string persistence = fmt::format(
      "zero_optimization.stage3_param_persistence_threshold {}", options.persistence_threshold);
  const std::string reuse = fmt::format(
      "zero_optimization.stage3_max_reuse_distance {} (with "
      "zero_optimization.stage3_max_live_parameters {})",
      options.max_reuse_distance, options.max_live_parameters);
  if (persistence_keeps == reuse_keeps) return persistence + " and " + reuse;
  return persistence_keeps ? persistence : reuse;
}

/// Subject and verb: the keys that secondary copies are for. `hpz` is that of hpZ, which groups of
/// one rank have off.
std::string copies_save(const Options& options, const std::string& hpz) {
  constexpr const char* kDifferences = "zeropp.weight_differences";
  if (options.hpz_partition_size <= 1) return fmt::format("{} saves", kDifferences);
  return options.weight_differences.enabled ? fmt::format("{} and {} save", hpz, kDifferences)
                                            : fmt::format("{} saves", hpz);
}

}  // namespace

std::string hpz_warning(const Options& options, const StepPlan& plan, std::size_t ranks_per_node) {
  if (!options.has_secondary()) return "";
  const std::size_t size = options.hpz_partition_size;
  const std::string key = fmt::format("zero_optimization.zero_hpz_partition_size {}", size);
  if (!gathers_secondary(plan.step.stale)) {
    return fmt::format(
        "{} nothing here: a step gathers each weight only once and keeps it, because the "
        "model is small for {}: scale such limits with the model, or set them to 0",
        copies_save(options, key), keeping_limits(options, plan.input));
  }
  if (size <= ranks_per_node) return "";
  return fmt::format(
      "{} is more than the {} ranks of a node: the groups that hold a secondary copy cross nodes, "
      "and so do the gathers of backward: set it to {}, unless memory forbids it",
      key, ranks_per_node, ranks_per_node);
}

}  // namespace zeropp::zero
