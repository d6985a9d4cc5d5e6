#include "lib/zero/step_plan.hpp"

#include <algorithm>

namespace zeropp::zero {

std::size_t StepPlan::arena_bytes() const {
  return std::max({step[0].arena_bytes, step[1].arena_bytes, evaluation[0].arena_bytes,
                   evaluation[1].arena_bytes, update.arena_bytes, initial.arena_bytes});
}

StepPlan make_step_plan(const Options& options, const std::vector<UnitPartition>& units,
                        const std::vector<Layer>& layers, const WeightGather& weights,
                        const GradientReduce& gradients) {
  StepPlan plan;
  ScheduleInput& input = plan.input;
  input.units = units;
  input.unit_memory.resize(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    input.unit_memory[u].weights = units[u].padded * size_of(options.compute);
    input.unit_memory[u].gradients = units[u].padded * sizeof(float);
  }
  weights.add_memory(input.unit_memory);
  input.layers = layers;
  input.buckets = gradients.buckets();
  input.bucket_memory = gradients.memory();
  input.preset = stage_preset(options.stage);
  input.hpz = options.hpz_partition_size > 1;
  input.micro_steps = options.accumulation_steps;
  input.prefetch_elements = options.prefetch_bucket_size;
  input.max_live_elements = options.max_live_parameters;
  input.overlap = options.overlap_comm;
  for (const bool secondary_valid : {false, true}) {
    plan.step.at(secondary_valid ? 1 : 0) = make_step_schedule(input, secondary_valid);
    plan.evaluation.at(secondary_valid ? 1 : 0) = make_evaluation_schedule(input, secondary_valid);
  }
  plan.update = make_update_schedule(input);
  plan.initial = make_initial_schedule(input);
  weights.add_volumes(plan.volumes);
  gradients.add_volumes(plan.volumes);
  return plan;
}

}  // namespace zeropp::zero
