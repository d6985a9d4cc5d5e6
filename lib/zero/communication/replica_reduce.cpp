#include "lib/zero/communication/replica_reduce.hpp"

#include <algorithm>
#include <string>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

/// What has one step, and the same order of additions in every run.
constexpr const char* kReduce = "1-hop";
constexpr const char* kGather = "direct";

}  // namespace

codec::CodecSpec codec_of_sums(const codec::CodecSpec& inter, Dtype compute) {
  if (inter != codec::CodecSpec{} || compute == Dtype::fp32) return inter;
  return {std::string(name_of(compute)), 0, {}};
}

ReplicaReduce::ReplicaReduce(const Options& options, const CodecTable& codecs,
                             const std::vector<Bucket>& buckets, comm::Groups& groups,
                             GradientErrors& errors, trace::Recorder& recorder,
                             const Device& device)
    : buckets_(buckets),
      replicas_(static_cast<std::size_t>(groups.replicas->size())),
      device_(device),
      choice_(buckets.size(), 0) {
  constexpr float kLargestFp16 = 65504.0F;
  if (options.compute == Dtype::fp16) largest_ = kLargestFp16 / static_cast<float>(replicas_);
  const collective::Context context{groups, *groups.replicas, recorder, device};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    parts_.push_back(replica_part(buckets_[b], replicas_, options.compute));
    collective::ReduceScatterPlan reduce;
    reduce.parts = collective::Parts::dense(parts_.back());
    reduce.plain = options.compute;
    reduce.depth = options.pipeline_depth;
    reduce.label = {"gradients_across", "backward"};
    reduce.feedback = errors.of_replica_reduce(b);
    reduce.only_hop = 2;
    collective::AllGatherPlan gather;
    gather.parts = reduce.parts;
    gather.depth = reduce.depth;
    gather.label = reduce.label;
    gather.feedback = errors.of_replica_gather(b);
    plans_.emplace_back();
    for (const GradientCodecs& hops : codecs.gradients(buckets_[b].segments.front().unit)) {
      reduce.codec_first = hops.inter;
      gather.codec = codec_of_sums(hops.inter, options.compute);
      plans_.back().push_back({collective::plan_reduce_scatter(kReduce, context, reduce),
                               collective::plan_all_gather(kGather, context, gather)});
    }
  }
}

void ReplicaReduce::use(const std::vector<std::size_t>& choice) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    choice_[b] = choice[buckets_[b].segments.front().unit];
  }
}

bool ReplicaReduce::packed(std::size_t bucket) const {
  const Bucket& of = buckets_[bucket];
  return of.segments.size() > 1 || of.count() != replicas_ * parts_[bucket];
}

std::size_t ReplicaReduce::packed_bytes(std::size_t bucket) const {
  return packed(bucket) ? round_up(replicas_ * parts_[bucket] * sizeof(float), std::size_t{256})
                        : 0;
}

ReplicaReduce::Places ReplicaReduce::places(std::size_t bucket, std::span<const View> shards,
                                            std::span<std::byte> image) const {
  const Segment& first = buckets_[bucket].segments.front();
  const std::size_t part = parts_[bucket];
  const View full = packed(bucket)
                        ? View{image.data(), replicas_ * part, Dtype::fp32, device_.memory}
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
  // Codecs saturate: what would leave fp16's range here or in the sum has to be seen (as in
  // GradientReduce).
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

void ReplicaReduce::add_volumes(Volumes& volumes) const {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Pair& pair = plans_[b][choice_[b]];
    volumes.reduce_across.push_back(pair.reduce->volume());
    volumes.gather_across.push_back(pair.gather->volume());
  }
}

void ReplicaReduce::add_messages(Volumes& messages) const {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Pair& pair = plans_[b][choice_[b]];
    messages.reduce_across.push_back(pair.reduce->messages());
    messages.gather_across.push_back(pair.gather->messages());
  }
}

void ReplicaReduce::add_memory(std::vector<BucketMemory>& memory) const {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    BucketMemory& of = memory[b];
    of.image_across = packed_bytes(b) + parts_[b] * sizeof(float);
    for (const Pair& pair : plans_[b]) {
      of.reduce_across_workspace =
          std::max(of.reduce_across_workspace, pair.reduce->workspace_bytes());
      of.gather_across_workspace =
          std::max(of.gather_across_workspace, pair.gather->workspace_bytes());
    }
  }
}

}  // namespace zeropp::zero
