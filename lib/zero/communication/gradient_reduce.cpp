#include "lib/zero/communication/gradient_reduce.hpp"

#include <utility>
#include <variant>

#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {

namespace {

/// A gradient of larger magnitude becomes infinite before it is encoded. Where sums over ranks are
/// encoded again, they stay in fp16's range when each term is in its share of it.
std::optional<float> largest_gradient(const Options& options, const comm::Topology& topology) {
  const auto& algorithm = collective::find_reduce_scatter(options.reduce_scatter_algorithm);
  return largest_fp16_term(options.compute, algorithm.ranks_in_sums(topology));
}

}  // namespace

GradientReduce::GradientReduce(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, std::vector<Bucket> buckets,
                               comm::Groups& groups, trace::Recorder& recorder,
                               const Device& device)
    : units_(units),
      buckets_(std::move(buckets)),
      world_size_(static_cast<std::size_t>(groups.sharding().world->size())),
      largest_(largest_gradient(options, groups.sharding().topology)),
      device_(device),
      errors_(options, buckets_, groups.shape(), device),
      choice_(buckets_.size(), 0) {
  if (groups.replicas) over_replicas_.emplace(options.compute, buckets_, groups, device);
  reduce_.resize(buckets_.size());
  const auto make = [&](Collective made) {
    const std::size_t bucket = made.key.index;
    comm::Groups& level = made.among == RankGroup::replicas ? groups : groups.sharding();
    comm::Communicator& group = made.among == RankGroup::replicas ? *groups.replicas : *level.world;
    const collective::Context context{level, group, recorder, device};
    std::visit(
        [&](auto& plan) {
          if constexpr (requires { plan.feedback; }) {  // exact differences are of weights
            if (plan.feedback) plan.feedback->errors = errors_.of(made.key.transfer, bucket);
          }
        },
        made.plan);
    if (made.key.transfer == Transfer::sums) {
      gather_sum_.push_back(collective::plan_all_gather(made.algorithm, context, made.gather()));
    } else if (made.key.transfer == Transfer::replica_gather) {
      over_replicas_->add(bucket,
                          collective::plan_all_gather(made.algorithm, context, made.gather()));
    } else {
      auto reduce = collective::plan_reduce_scatter(made.algorithm, context, made.reduction());
      if (made.key.transfer == Transfer::gradients) {
        reduce_[bucket].push_back(std::move(reduce));
      } else {
        over_replicas_->add(bucket, std::move(reduce));
      }
    }
  };
  for_each_gradient_collective(options, codecs, units_, buckets_, world_size_,
                               groups.shape().shard_groups(), make);
}

void GradientReduce::use(const std::vector<std::size_t>& choice) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    choice_[b] = choice[unit_of(buckets_[b])];
  }
  if (over_replicas_) over_replicas_->use(choice);
}

void GradientReduce::copy_segments(std::size_t bucket, std::span<const View> gradients, View dense,
                                   bool pack, StreamHandle stream) const {
  const std::size_t count = buckets_[bucket].count();
  for (std::size_t rank = 0; rank < world_size_; ++rank) {
    std::size_t at = rank * count;
    for (const Segment& segment : buckets_[bucket].segments) {
      const View in_unit = gradients[segment.unit].part(
          rank * units_[segment.unit].shard + segment.offset, segment.count);
      const View in_dense = dense.part(at, segment.count);
      device_.memory_ops->copy(pack ? in_unit : in_dense, pack ? in_dense : in_unit, stream);
      at += segment.count;
    }
  }
}

void GradientReduce::start(std::size_t bucket, std::span<const View> gradients, View sum,
                           collective::Run run) {
  const Segment& first = buckets_[bucket].segments.front();
  View full = gradients[first.unit].part(first.offset, gradients[first.unit].count - first.offset);
  if (packed(bucket)) {
    full = {run.workspace.data(), world_size_ * buckets_[bucket].count(), dtype(bucket),
            device_.memory};
    copy_segments(bucket, gradients, full, true, run.stream);
  }
  if (largest_) {
    const std::size_t count = buckets_[bucket].count();
    const std::size_t stride = packed(bucket) ? count : units_[first.unit].shard;
    device_.optim->overflow(*largest_, world_size_, stride, count, full.as<float>(), run.stream);
  }
  run.workspace = run.workspace.subspan(packing(bucket));
  reduce_[bucket][choice_[bucket]]->start(full, sum, run);
}

void GradientReduce::finish(std::size_t bucket, StreamHandle stream) {
  reduce_[bucket][choice_[bucket]]->finish(stream);
}

void GradientReduce::gather_sum(std::size_t bucket, ConstView sum, std::span<const View> gradients,
                                collective::Run run) {
  const Segment& first = buckets_[bucket].segments.front();
  View full = gradients[first.unit].part(first.offset, gradients[first.unit].count - first.offset);
  if (packed(bucket)) {
    full = {run.workspace.data(), world_size_ * buckets_[bucket].count(), Dtype::fp32,
            device_.memory};
  }
  run.workspace = run.workspace.subspan(packing(bucket));
  gather_sum_[bucket]->start(sum, full, run);
  gather_sum_[bucket]->finish(run.stream);
  if (packed(bucket)) copy_segments(bucket, gradients, full, false, run.stream);
}

}  // namespace zeropp::zero
