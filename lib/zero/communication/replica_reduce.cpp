#include "lib/zero/communication/replica_reduce.hpp"

#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {

ReplicaReduce::ReplicaReduce(const Options& options, const CodecTable& codecs,
                             const std::vector<Bucket>& buckets, comm::Groups& groups,
                             GradientErrors& errors, trace::Recorder& recorder,
                             const Device& device)
    : buckets_(buckets),
      shard_groups_(static_cast<std::size_t>(groups.replicas->size())),
      largest_(largest_fp16_term(options.compute, shard_groups_)),
      device_(device),
      choice_(buckets.size(), 0) {
  const collective::Context context{groups, *groups.replicas, recorder, device};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    parts_.push_back(replica_part(buckets_[b], shard_groups_, options.compute));
    plans_.emplace_back();
    for (const GradientCodecs& hops : codecs.gradients(buckets_[b].segments.front().unit)) {
      auto [reduce, gather] = replica_sum(options, buckets_[b], hops, shard_groups_);
      if (reduce.feedback) reduce.feedback->errors = errors.of_replica_reduce(b);
      if (gather.feedback) gather.feedback->errors = errors.of_replica_gather(b);
      plans_.back().push_back({collective::plan_reduce_scatter(kReplicaReduce, context, reduce),
                               collective::plan_all_gather(kReplicaGather, context, gather)});
    }
  }
}

void ReplicaReduce::use(const std::vector<std::size_t>& choice) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    choice_[b] = choice[buckets_[b].segments.front().unit];
  }
}

ReplicaReduce::Places ReplicaReduce::places(std::size_t bucket, std::span<const View> shards,
                                            std::span<std::byte> image) const {
  const Segment& first = buckets_[bucket].segments.front();
  const std::size_t part = parts_[bucket];
  const View full = packed(bucket)
                        ? View{image.data(), shard_groups_ * part, Dtype::fp32, device_.memory}
                        : shards[first.unit].part(first.offset, first.count);
  return {full, {image.data() + packed_bytes(bucket), part, Dtype::fp32, device_.memory}};
}

void ReplicaReduce::copy_segments(std::size_t bucket, std::span<const View> shards, View dense,
                                  bool pack, StreamHandle stream) const {
  std::size_t at = 0;
  for (const Segment& segment : buckets_[bucket].segments) {
    const View in_shard = shards[segment.unit].part(segment.offset, segment.count);
    const View in_dense = dense.part(at, segment.count);
    device_.memory_ops->copy(pack ? in_shard : in_dense, pack ? in_dense : in_shard, stream);
    at += segment.count;
  }
  if (pack) device_.memory_ops->clear(dense.part(at, dense.count - at), stream);
}

void ReplicaReduce::reduce(std::size_t bucket, std::span<const View> shards,
                           std::span<std::byte> image, std::span<std::byte> workspace,
                           StreamHandle stream, std::uint64_t key) {
  const auto [full, sum] = places(bucket, shards, image);
  if (packed(bucket)) copy_segments(bucket, shards, full, true, stream);
  // A value that would leave fp16's range here or in the sum becomes infinite (loss_scale.hpp).
  if (largest_) {
    device_.optim->overflow(*largest_, 1, full.count, full.count, full.as<float>(), stream);
  }
  collective::ReduceScatter& plan = *plans_[bucket][choice_[bucket]].reduce;
  plan.start(full, sum, workspace, stream, key);
  plan.finish(stream);
}

void ReplicaReduce::gather(std::size_t bucket, std::span<const View> shards,
                           std::span<std::byte> image, std::span<std::byte> workspace,
                           StreamHandle stream, std::uint64_t key) {
  const auto [full, sum] = places(bucket, shards, image);
  collective::AllGather& plan = *plans_[bucket][choice_[bucket]].gather;
  plan.start(sum, full, workspace, stream, key);
  plan.finish(stream);
  if (packed(bucket)) copy_segments(bucket, shards, full, false, stream);
}

}  // namespace zeropp::zero
