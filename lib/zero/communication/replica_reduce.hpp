// The sum of gradient shards over shard groups (MiCS, hybrid sharding), once a step: every rank has
// the sum of its shard over its own group; the ranks with the same shard in all groups, its
// replicas, reduce-scatter it by bucket and all-gather the sums, both in the codec of the hop
// across nodes. All replicas end with the same bits. All values travel in the type of weights:
// without a codec in the compute dtype. A bucket of one segment that the replicas divide is reduced
// where it lies, others are packed. Owns plans; the engine lends all memory. Source: MiCS (arXiv
// 2205.00119), section 3.4, "2-hop gradient synchronization".
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class ReplicaReduce {
 public:
  /// `groups` has replicas. Its collectives are added after that.
  ReplicaReduce(Dtype compute, const std::vector<Bucket>& buckets, const comm::Groups& groups,
                const Device& device);
  /// Add the halves of a bucket's sum, for one of its codecs after the other.
  void add(std::size_t bucket, std::unique_ptr<collective::ReduceScatter> reduce) {
    reduce_[bucket].push_back(std::move(reduce));
  }
  void add(std::size_t bucket, std::unique_ptr<collective::AllGather> gather) {
    gather_[bucket].push_back(std::move(gather));
  }

  /// Chooses codecs from the next reduction on, as GradientReduce::use() does.
  void use(const std::vector<std::size_t>& choice);

  /// Reduce-scatters a bucket among the replicas. `shards[u]`: unit u's fp32 gradient shard, summed
  /// over the group. `image`: image_bytes() that stay until gather() is done. Complete on return,
  /// with respect to the run's stream.
  void reduce(std::size_t bucket, std::span<const View> shards, std::span<std::byte> image,
              const collective::Run& run);
  /// All-gathers, after reduce(), the sums over all groups into the bucket's ranges of `shards`.
  void gather(std::size_t bucket, std::span<const View> shards, std::span<std::byte> image,
              const collective::Run& run);

 private:
  /// Places of a bucket while it is reduced. `full`: the image that it is packed in, or its own
  /// shard's memory. `sum`: the part that this rank adds up, in the image after a packed bucket.
  struct Places {
    View full;
    View sum;
  };
  [[nodiscard]] Places places(std::size_t bucket, std::span<const View> shards,
                              std::span<std::byte> image) const;
  [[nodiscard]] std::size_t packed_bytes(std::size_t bucket) const {
    return replica_packing_bytes(buckets_[bucket], shard_groups_, parts_[bucket]);
  }
  [[nodiscard]] bool packed(std::size_t bucket) const { return packed_bytes(bucket) > 0; }
  void copy_segments(std::size_t bucket, std::span<const View> shards, View dense, bool pack,
                     StreamHandle stream) const;

  std::vector<Bucket> buckets_;
  std::size_t shard_groups_;
  std::optional<float> largest_;    ///< magnitude of a sum that fp16 can carry; empty: all can
  std::vector<std::size_t> parts_;  ///< by bucket: elements that a rank adds up
  ComputeDevice device_;
  // By bucket and codecs.
  std::vector<std::vector<std::unique_ptr<collective::ReduceScatter>>> reduce_;
  std::vector<std::vector<std::unique_ptr<collective::AllGather>>> gather_;
  std::vector<std::size_t> choice_;  ///< by bucket
};

}  // namespace zeropp::zero
