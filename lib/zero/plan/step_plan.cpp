#include "lib/zero/plan/step_plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lib/zero/plan/offload_plan.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {

std::size_t StepPlan::arena_bytes() const {
  return std::max({step.stale.arena_bytes, step.current.arena_bytes, evaluation.stale.arena_bytes,
                   evaluation.current.arena_bytes, update.arena_bytes, initial.arena_bytes});
}

ScheduleInput schedule_input(const Options& options, const std::vector<UnitPartition>& units,
                             const std::vector<Layer>& layers, std::vector<UnitMemory> workspaces,
                             std::vector<Bucket> buckets, std::vector<BucketMemory> bucket_memory) {
  ScheduleInput input;
  input.units = units;
  input.unit_memory = std::move(workspaces);
  for (std::size_t u = 0; u < units.size(); ++u) {
    input.unit_memory[u].gather_workspace += upload_bytes(units[u], options);
    input.unit_memory[u].refresh_workspace += upload_bytes(units[u], options);
    input.unit_memory[u].exchange_workspace += upload_bytes(units[u], options);
    input.unit_memory[u].count_workspace =
        upload_bytes(units[u], options) + codec::exact_count_bytes(units[u].shard);
    input.unit_memory[u].weights = units[u].padded * size_of(options.compute);
    input.unit_memory[u].gradients = units[u].padded * size_of(units[u].gradients);
  }
  input.layers = layers;
  input.buckets = std::move(buckets);
  input.bucket_memory = std::move(bucket_memory);
  input.preset = stage_preset(options.stage);
  input.hpz = options.has_secondary();
  input.exchanges = options.exchanges_differences();
  input.agrees = options.weight_differences.enabled && options.weight_differences.exact;
  input.updates_encode = updates_encode_refreshes(options);
  input.over_replicas =
      !input.bucket_memory.empty() && input.bucket_memory.front().replica_image > 0;
  input.micro_steps = options.accumulation_steps;
  input.prefetch_elements = options.prefetch_bucket_size;
  input.max_live_elements = options.max_live_parameters;
  input.reuse_elements = options.max_reuse_distance;
  input.overlap = options.overlap_comm;
  if (options.update_in_backward) {
    if (!input.preset.shard_gradients || options.accumulation_steps > 1 || input.over_replicas) {
      throw std::invalid_argument(
          "update_in_backward needs stage 2 or 3, one micro-step and one shard group");
    }
    input.slabs = plan_gradient_slabs(units, input.buckets);
  }
  return input;
}

StepPlan make_schedules(ScheduleInput input) {
  StepPlan plan;
  plan.input = std::move(input);
  const auto both = [&](auto* make) -> BySecondary {
    return {.stale = make(plan.input, /*secondary_valid=*/false),
            .current = make(plan.input, /*secondary_valid=*/true)};
  };
  plan.step = both(make_step_schedule);
  plan.evaluation = both(make_evaluation_schedule);
  plan.update = make_update_schedule(plan.input);
  plan.initial = make_initial_schedule(plan.input);
  return plan;
}

}  // namespace zeropp::zero
