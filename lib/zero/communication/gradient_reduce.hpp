// The reduce-scatters of gradients, planned once per bucket and pair of codecs, and at stage 0 the
// all-gather of the reduced sums. A bucket of one segment is reduced where it lies; one of several
// is packed first, so that small units travel in one message. Owns plans, and the errors that are
// fed back, which are errors of values and so stay what they are when a bucket's codecs change; the
// engine lends all other memory, enough for any of a bucket's codecs.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/zero/communication/gradient_errors.hpp"
#include "lib/zero/communication/replica_reduce.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class GradientReduce {
 public:
  /// `options` are resolved (no "auto"); `groups` and `recorder` outlive this. The units of a
  /// bucket are of one group of `codecs`. Reduces among groups.sharding(), and over the shard
  /// groups where there are several.
  GradientReduce(const Options& options, const CodecTable& codecs,
                 const std::vector<UnitPartition>& units, std::vector<Bucket> buckets,
                 comm::Groups& groups, trace::Recorder& recorder, const Device& device);

  /// Chooses the codecs of the buckets of unit u from the next reduction on:
  /// codecs.gradients(u)[choice[u]]. The index is 0 before.
  void use(const std::vector<std::size_t>& choice);

  /// Starts the reduction of a bucket. `gradients[u]`: unit u's padded gradients, of
  /// UnitPartition::gradients, which computing in fp16 changes: what is beyond its range becomes
  /// infinite. `sum`: bucket.count() fp32, valid after finish().
  void start(std::size_t bucket, std::span<const View> gradients, View sum, collective::Run run);
  /// Enqueues on `stream` what is left of the reduction that start() began; `stream` may be another
  /// than start()'s, and its later work finds the sum. Where the host moves the bytes, waits for
  /// them. Called once for each start().
  void finish(std::size_t bucket, StreamHandle stream);

  /// All-gathers, at stage 0, every rank's `sum` into the bucket's ranges of `gradients`, complete
  /// on return.
  void gather_sum(std::size_t bucket, ConstView sum, std::span<const View> gradients,
                  collective::Run run);

  /// The sum over the shard groups; null where there is one group.
  [[nodiscard]] ReplicaReduce* over_replicas() {
    return over_replicas_ ? &*over_replicas_ : nullptr;
  }

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// The errors that are fed back; the engine commits or discards them after each step.
  [[nodiscard]] GradientErrors& errors() { return errors_; }
  [[nodiscard]] const GradientErrors& errors() const { return errors_; }

 private:
  [[nodiscard]] bool packed(std::size_t bucket) const { return is_packed(buckets_[bucket]); }
  /// Dtype of a bucket's gradients, which is that of its units.
  [[nodiscard]] Dtype dtype(std::size_t bucket) const {
    return units_[unit_of(buckets_[bucket])].gradients;
  }
  /// Bytes of the workspace that a bucket's packed gradients take.
  [[nodiscard]] std::size_t packing(std::size_t bucket) const {
    return packing_bytes(units_, buckets_[bucket], world_size_);
  }
  /// Copies between the units' gradients and a dense [rank][bucket.count()] image.
  void copy_segments(std::size_t bucket, std::span<const View> gradients, View dense, bool pack,
                     StreamHandle stream) const;

  std::vector<UnitPartition> units_;
  std::vector<Bucket> buckets_;
  std::size_t world_size_;
  std::optional<float> largest_;  ///< magnitude of a gradient that fp16 can carry; empty: all can
  ComputeDevice device_;
  GradientErrors errors_;
  /// Reduce-scatters by bucket and codecs.
  std::vector<std::vector<std::unique_ptr<collective::ReduceScatter>>> reduce_;
  std::vector<std::size_t> choice_;                                 ///< by bucket
  std::vector<std::unique_ptr<collective::AllGather>> gather_sum_;  ///< stage 0 only
  std::optional<ReplicaReduce> over_replicas_;
};

}  // namespace zeropp::zero
