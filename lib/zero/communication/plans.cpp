#include "lib/zero/communication/plans.hpp"

#include <fmt/format.h>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"

namespace zeropp::zero {

namespace {

/// Pieces that a step's gradients are cut into at most. A plan keeps a few kilobytes for each, and
/// a run sends each in messages of its own: with more, no run is of use.
constexpr std::size_t kMostPieces = std::size_t{1} << 17U;

/// Counted before any of them is made.
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
      partition_units(units, world_size, options.hpz_partition_size, options.compute, shard_groups);
  if (options.gradient_dtype != Dtype::fp32) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (units[u].gradients_written_once) planned[u].gradients = options.compute;
    }
  }
  if (stage_preset(options.stage).shard_parameters) {
    mark_persistent(planned, options.persistence_threshold, options.model_persistence_threshold);
  }
  return planned;
}

Plans::Plans(const Options& options, const std::vector<Unit>& model_units,
             const std::vector<Layer>& layers, comm::Groups& groups, comm::Groups& reduce_groups,
             trace::Recorder& recorder, const Device& device)
    : units(plan_units(options, model_units, static_cast<std::size_t>(groups.world->size()),
                       groups.replicas ? static_cast<std::size_t>(groups.replicas->size()) : 1)),
      codecs(options, model_units),
      weights(options, codecs, units, groups, recorder, device),
      gradients(options, codecs, units,
                plan_buckets(options, codecs, units, layers,
                             static_cast<std::size_t>(groups.sharding().world->size())),
                reduce_groups, recorder, device),
      step(make_step_plan(options, units, layers, weights, gradients)) {}

void Plans::use(const CodecChoice& choice) {
  weights.use(choice.weights);
  gradients.use(choice.gradients);
  step.volumes = {};
  weights.add_volumes(step.volumes);
  gradients.add_volumes(step.volumes);
}

const trace::CollectiveRow* Plans::row(const Op& op, Phase phase) const {
  switch (op.kind) {
    case OpKind::gather:
    case OpKind::refresh:
      return &weights.global(op.index, phase).row();
    case OpKind::gather_secondary:
      return &weights.secondary(op.index, phase).row();
    case OpKind::reduce:
      return &gradients.row(op.index);
    case OpKind::gather_sum:
      return &gradients.row_of_sum(op.index);
    case OpKind::reduce_across:
      return &gradients.across()->reduce_row(op.index);
    case OpKind::gather_across:
      return &gradients.across()->gather_row(op.index);
    case OpKind::keep_secondary:
    case OpKind::forward:
    case OpKind::backward:
    case OpKind::clear_gradients:
    case OpKind::end_reduce:
    case OpKind::update:
      break;
  }
  return nullptr;
}

}  // namespace zeropp::zero
