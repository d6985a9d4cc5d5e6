#include "lib/plan/planned_run.hpp"

#include "kernels/nn/nn_sizes.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/base/error.hpp"
#include "lib/plan/saturating.hpp"
#include "lib/zero/plan/guard_findings.hpp"
#include "lib/zero/plan/measurement.hpp"
#include "lib/zero/plan/state_memory.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

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

}  // namespace

model::Sizing sizing_of(const config::TrainConfig& config, std::size_t source_vocab_size) {
  return {.micro_batch = config.train_micro_batch_size_per_gpu,
          .vocab_size = source_vocab_size,
          .compute = config::compute_dtype(config),
          .deterministic = config.zero.deterministic,
          .sizes = nn::planned_sizes(*config.backend)};
}

std::size_t ordinary_step(const zero::Options& options) {
  return options.exchanges_differences() ? 1 : 0;
}

PlannedRun::PlannedRun(const config::TrainConfig& config, const comm::Topology& topology,
                       std::size_t source_vocab_size)
    : config_(plannable(config)),
      topology_(topology),
      model_(model::describe_model(config_.model, sizing_of(config_, source_vocab_size))),
      first_(config_.zero, model_.units, model_.layers, seen_by(0), seen_by(0)) {
  first_.use(first_.codecs.at(0));
  add_up();
}

comm::JobShape PlannedRun::seen_by(int rank) const {
  return comm::shape_of_job(topology_, rank, config_.zero.hpz_partition_size,
                            config_.zero.shard_group_size);
}

void PlannedRun::plan_step(std::size_t step) {
  step_ = step;
  const std::size_t interval = config_.evaluation_interval;
  follows_evaluation_ = interval > 0 && step % interval == 0;
  const zero::CodecChoice choice = first_.codecs.at(step);
  if (choice == first_.choice) return;
  first_.use(choice);
  add_up();
}

void PlannedRun::add_up() {
  over_ranks_ = {};
  messages_ = {};
  // Nodes are alike, also in hpZ and shard groups: these lie within a node, or are of whole nodes.
  const int alike = topology_.ranks_per_node;
  const auto times = static_cast<std::uint64_t>(topology_.world_size / alike);
  add(over_ranks_, first_.step.volumes, times);
  add(messages_, first_.messages(), times);
  for (int rank = 1; rank < alike; ++rank) {
    const comm::JobShape job = seen_by(rank);
    zero::CollectiveDescriptions described;
    described.describe_weights(config_.zero, first_.codecs, first_.units, job);
    described.describe_gradients(config_.zero, first_.codecs, first_.units, first_.buckets(), job);
    using collective::Description;
    add(over_ranks_, described.volumes(first_.choice, &Description::bytes), times);
    add(messages_, described.volumes(first_.choice, &Description::messages), times);
  }
}

std::size_t device_bytes(const std::vector<zero::MemoryPart>& parts) {
  std::size_t bytes = 0;
  for (const zero::MemoryPart& part : parts) {
    if (!zero::is_offloaded(part.name)) bytes += part.bytes;
  }
  return bytes;
}

std::vector<zero::MemoryPart> PlannedRun::memory() const {
  const zero::RankPlan& plans = first_;
  const std::vector<zero::Bucket>& buckets = plans.buckets();
  const comm::JobShape job = seen_by(0);
  std::vector<zero::MemoryPart> parts =
      zero::state_memory(plans.units, zero::stage_preset(config_.zero.stage), config_.zero.compute,
                         optim::kept_by(config_.optimizer), config_.zero.offload_optimizer,
                         config_.zero.offload_param, plans.step.input.slabs);
  if (zero::keeps_weight_images(config_.zero)) {
    parts.push_back(
        {zero::kWeightImages, zero::weight_image_memory(config_.zero, plans.codecs, plans.units)});
  }
  const std::size_t tables = zero::weight_image_table_memory(
      config_.zero, optim::kept_by(config_.optimizer), plans.codecs, model_.units, plans.units, 0);
  if (tables > 0) parts.push_back({zero::kWeightImageTables, tables});
  for (const zero::MemoryPart& errors : zero::feedback_memory(config_.zero, buckets, job)) {
    if (errors.bytes > 0) parts.push_back(errors);
  }
  if (config_.zero.measure_errors > 0) {
    const zero::MeasurementMemory memory = zero::measurement_memory(
        config_.zero, plans.codecs, model_.units, plans.units, buckets, job);
    parts.push_back({"measurement", memory.total()});
  }
  if (config_.zero.verify_interval > 0)
    parts.push_back({zero::kGuardMemory, zero::guard_memory(plans.units.size())});
  parts.push_back({"arena", plans.step.arena_bytes()});
  parts.push_back({"activations", model_.memory});
  if (model_.offloaded_memory > 0) {
    parts.push_back({"offloaded_activations", model_.offloaded_memory});
  }
  return parts;
}

}  // namespace zeropp::plan
