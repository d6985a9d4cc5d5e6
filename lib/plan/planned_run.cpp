#include "lib/plan/planned_run.hpp"

#include "kernels/optim/registry.hpp"
#include "lib/base/error.hpp"
#include "lib/model/registry.hpp"
#include "lib/plan/planning_groups.hpp"
#include "lib/plan/saturating.hpp"
#include "lib/zero/quantization/error_meter.hpp"

namespace zeropp::plan {

namespace {

const config::TrainConfig& plannable(const config::TrainConfig& config) {
  if (config.zero.adaptive_bits.values != zero::AdaptedValues::none) {
    throw Error(ExitCode::usage,
                "zeropp.adaptive_bits chooses widths by errors that are measured in the run, which "
                "no plan knows: plan with its budget_codec as the codec instead");
  }
  return config;
}

void add_volumes(zero::Volumes& sums, const zero::Volumes& values, std::uint64_t times) {
  add(sums.gather, values.gather, times);
  add(sums.gather_secondary, values.gather_secondary, times);
  add(sums.refresh, values.refresh, times);
  add(sums.reduce, values.reduce, times);
  add(sums.gather_sum, values.gather_sum, times);
  add(sums.reduce_across, values.reduce_across, times);
  add(sums.gather_across, values.gather_across, times);
}

}  // namespace

PlannedRun::PlannedRun(const config::TrainConfig& config, const comm::Topology& topology,
                       std::size_t source_vocab_size)
    : config_(plannable(config)),
      topology_(topology),
      device_(ComputeDevice::planning(*config.backend)) {
  trace::Timers unread;
  model_ =
      model::describe_model(config_.model, {.micro_batch = config_.train_micro_batch_size_per_gpu,
                                            .vocab_size = source_vocab_size,
                                            .device = device_,
                                            .compute = config_.zero.compute,
                                            .timers = unread});
  first_ = plan(0);
  use_codecs_of(0);
}

std::unique_ptr<PlannedRun::Rank> PlannedRun::plan(int rank) {
  auto made = std::make_unique<Rank>();
  made->groups = planning_groups(topology_, rank, config_.zero.hpz_partition_size,
                                 config_.zero.shard_group_size);
  made->plans = std::make_unique<zero::Plans>(config_.zero, model_.units, model_.layers,
                                              made->groups, made->groups, made->recorder, device_);
  return made;
}

void PlannedRun::use_codecs_of(std::size_t step) {
  zero::Plans& plans = *first_->plans;
  zero::CodecChoice choice = plans.codecs.at(step);
  if (choice == choice_) return;
  choice_ = std::move(choice);
  plans.use(choice_);
  // Nodes are alike, also in hpZ and shard groups: these lie within a node, or are of whole nodes.
  const int alike = topology_.ranks_per_node;
  const auto times = static_cast<std::uint64_t>(topology_.world_size / alike);
  over_ranks_ = {};
  messages_ = {};
  add_sent(plans, times);
  for (int rank = 1; rank < alike; ++rank) {
    const std::unique_ptr<Rank> other = plan(rank);
    other->plans->use(choice_);
    add_sent(*other->plans, times);
  }
}

void PlannedRun::add_sent(const zero::Plans& plans, std::uint64_t times) {
  add_volumes(over_ranks_, plans.step.volumes, times);
  zero::Volumes messages;
  plans.weights.add_messages(messages);
  plans.gradients.add_messages(messages);
  add_volumes(messages_, messages, times);
}

std::vector<zero::MemoryPart> PlannedRun::memory() const {
  const zero::Plans& plans = *first_->plans;
  std::vector<zero::MemoryPart> parts =
      zero::state_memory(plans.units, zero::stage_preset(config_.zero.stage), config_.zero.compute,
                         optim::variant_of(config_.optimizer).states,
                         config_.zero.offload_optimizer, config_.zero.offload_param);
  for (const zero::MemoryReport& errors : plans.gradients.errors().memory()) {
    parts.push_back({errors.name, errors.predicted});
  }
  if (config_.zero.measure_errors > 0) {
    parts.push_back({"measurement", zero::ErrorMeter::predicted_bytes(
                                        config_.zero, plans.codecs, model_.units, plans.units,
                                        plans.gradients.buckets(), first_->groups, device_)});
  }
  parts.push_back({"arena", plans.step.arena_bytes()});
  parts.push_back({"activations", model_.memory});
  if (model_.offloaded_memory > 0) {
    parts.push_back({"offloaded_activations", model_.offloaded_memory});
  }
  return parts;
}

}  // namespace zeropp::plan
