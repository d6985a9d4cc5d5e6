#include "lib/zero/plan/rank_plan.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {

namespace {

/// Pieces that a step's gradients are cut into at most. A plan keeps a few kilobytes for each, and
/// a run sends each in messages of its own: with more, no run is of use.
constexpr std::size_t kMostPieces = std::size_t{1} << 17U;

/// Refuses more pieces than that; they are counted before any of them is made.
void require_few_pieces(const Options& options, const std::vector<UnitPartition>& units,
                        std::size_t world_size) {
  const std::size_t quantum = bucket_quantum(options);
  const std::size_t capacity = bucket_capacity(options.reduce_bucket_size, world_size, quantum);
  std::size_t pieces = 0;
  std::size_t elements = 0;
  for (const UnitPartition& unit : units) {
    pieces += unit.shard / capacity;
    elements += unit.shard;
  }
  if (pieces <= kMostPieces) return;
  const std::size_t enough = round_up(ceil_div(elements, kMostPieces), quantum) * world_size;
  throw Error(ExitCode::usage,
              fmt::format("zero_optimization.reduce_bucket_size {} cuts the gradients of a step "
                          "into {} pieces, and {} are the most: raise --reduce-bucket-size to {} "
                          "or more",
                          options.reduce_bucket_size, pieces, kMostPieces, enough));
}

}  // namespace

std::size_t bucket_quantum(const Options& options) { return 8 * gradient_block(options); }

std::vector<Bucket> plan_buckets(const Options& options, const CodecTable& codecs,
                                 const std::vector<UnitPartition>& partitions,
                                 const std::vector<Layer>& layers, std::size_t world_size) {
  require_few_pieces(options, partitions, world_size);
  return make_buckets(partitions, gradient_order(layers, partitions.size()), world_size,
                      options.reduce_bucket_size, bucket_quantum(options),
                      codecs.gradient_groups());
}

std::vector<UnitPartition> plan_units(const Options& options, const std::vector<Unit>& units,
                                      std::size_t world_size, std::size_t shard_groups) {
  std::vector<UnitPartition> planned =
      partition_units(units, world_size, options.hpz_partition_size, options.compute, shard_groups,
                      options.shard_multiple);
  if (options.gradient_dtype != Dtype::fp32) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (units[u].gradients_written_once) planned[u].gradients = options.compute;
    }
  }
  const WeightDifferenceOptions& differences = options.weight_differences;
  if (options.exchanges_differences()) {
    rail_copies(planned, world_size / options.hpz_partition_size,
                differences.copy == CopyDtype::fp32 ? Dtype::fp32 : options.compute);
  }
  for (UnitPartition& unit : planned) {
    unit.secondary_on_host = unit.secondary > 0 && options.hpz_device == HpzDevice::cpu;
  }
  if (stage_preset(options.stage).shard_parameters) {
    mark_persistent(planned, options.persistence_threshold, options.model_persistence_threshold);
  }
  return planned;
}

RankPlan::RankPlan(const Options& options, const std::vector<Unit>& model_units,
                   const std::vector<Layer>& layers, const comm::JobShape& job,
                   const comm::JobShape& reducing)
    : units(plan_units(options, model_units, job.world.size, job.shard_groups())),
      codecs(options, model_units) {
  collectives.describe_weights(options, codecs, units, job);
  std::vector<Bucket> buckets =
      plan_buckets(options, codecs, units, layers, job.sharding().world.size);
  collectives.describe_gradients(options, codecs, units, buckets, reducing);
  step = make_schedules(schedule_input(options, units, layers, collectives.unit_memory(),
                                       std::move(buckets), collectives.bucket_memory()));
  check_weight_images(options, codecs, units);
  use({std::vector<std::size_t>(units.size(), 0), std::vector<std::size_t>(units.size(), 0)});
}

void RankPlan::use(const CodecChoice& next) {
  choice = next;
  step.volumes = collectives.volumes(choice, &collective::Description::bytes);
}

void RankPlan::agree(std::size_t unit, const codec::ExactShape& shape) {
  const OpKind kind = step.input.exchanges ? OpKind::exchange : OpKind::refresh;
  step.volumes[kind].at(unit) = collectives.exact_bytes(units[unit], shape);
}

Volumes RankPlan::messages() const {
  return collectives.volumes(choice, &collective::Description::messages);
}

const collective::Description* RankPlan::description(const Op& op) const {
  if (sends(op.kind) == Sends::nothing) return nullptr;
  const collective::Description* const found =
      collectives.find(collective_of(op), op.index, choice);
  if (found == nullptr) {
    throw std::logic_error(fmt::format("nothing describes {} {}", name_of(op.kind), op.index));
  }
  return found;
}

}  // namespace zeropp::zero
