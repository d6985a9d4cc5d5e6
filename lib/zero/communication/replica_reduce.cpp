#include "lib/zero/communication/replica_reduce.hpp"

#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {

ReplicaReduce::ReplicaReduce(Dtype compute, const std::vector<Bucket>& buckets,
                             const comm::Groups& groups, const Device& device)
    : buckets_(buckets),
      shard_groups_(static_cast<std::size_t>(groups.replicas->size())),
      largest_(largest_fp16_term(compute, shard_groups_)),
      device_(device),
      reduce_(buckets.size()),
      gather_(buckets.size()),
      choice_(buckets.size(), 0) {
  for (const Bucket& bucket : buckets_)
    parts_.push_back(replica_part(bucket, shard_groups_, compute));
}

void ReplicaReduce::use(const std::vector<std::size_t>& choice) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    choice_[b] = choice[unit_of(buckets_[b])];
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
                           std::span<std::byte> image, const collective::Run& run) {
  const auto [full, sum] = places(bucket, shards, image);
  if (packed(bucket)) copy_segments(bucket, shards, full, true, run.stream);
  // A value that would leave fp16's range here or in the sum becomes infinite (loss_scale.hpp).
  if (largest_) {
    device_.optim->overflow(*largest_, 1, full.count, full.count, full.as<float>(), run.stream);
  }
  collective::ReduceScatter& plan = *reduce_[bucket][choice_[bucket]];
  plan.start(full, sum, run);
  plan.finish(run.stream);
}

void ReplicaReduce::gather(std::size_t bucket, std::span<const View> shards,
                           std::span<std::byte> image, const collective::Run& run) {
  const auto [full, sum] = places(bucket, shards, image);
  collective::AllGather& plan = *gather_[bucket][choice_[bucket]];
  plan.start(sum, full, run);
  plan.finish(run.stream);
  if (packed(bucket)) copy_segments(bucket, shards, full, false, run.stream);
}

}  // namespace zeropp::zero
