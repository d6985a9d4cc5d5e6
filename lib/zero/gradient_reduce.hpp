// The reduce-scatters of gradients, planned once per bucket, and at stage 0 the all-gather of the
// reduced sums. A bucket of one segment is reduced where it lies; one of several is packed first,
// so that small units travel in one message. Owns plans, and the errors that are fed back; the
// engine lends all other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/gradient_errors.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"
#include "lib/zero/volume.hpp"

namespace zeropp::zero {

/// Smallest step of a bucket's size: 8 blocks of the gradient codecs, so that a cut never splits a
/// block.
std::size_t bucket_quantum(const Options& options);

class GradientReduce {
 public:
  /// `options` are resolved (no "auto"); `groups` and `recorder` outlive this.
  GradientReduce(const Options& options, const std::vector<UnitPartition>& units,
                 std::vector<Bucket> buckets, comm::Groups& groups, trace::Recorder& recorder,
                 const Device& device);

  /// `gradients[u]`: unit u's padded fp32 gradients. `sum`: bucket.count() fp32, valid after
  /// finish(). `key`: of the reduction's draws.
  void start(std::size_t bucket, std::span<const View> gradients, View sum,
             std::span<std::byte> workspace, StreamHandle stream, std::uint64_t key);
  void finish(std::size_t bucket, StreamHandle stream);

  /// Stage 0: every rank's `sum` -> the bucket's ranges of `gradients`, complete on return.
  void gather_sum(std::size_t bucket, ConstView sum, std::span<const View> gradients,
                  std::span<std::byte> workspace, StreamHandle stream);

  void add_volumes(Volumes& volumes) const;
  [[nodiscard]] std::vector<BucketMemory> memory() const;
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Whose steps the engine ends.
  [[nodiscard]] GradientErrors& errors() { return errors_; }
  [[nodiscard]] const GradientErrors& errors() const { return errors_; }

 private:
  [[nodiscard]] bool packed(std::size_t bucket) const {
    return buckets_[bucket].segments.size() > 1;
  }
  [[nodiscard]] std::size_t packing_bytes(std::size_t bucket) const;
  /// Copies between the units' gradients and a dense [rank][bucket.count()] image.
  void copy_segments(std::size_t bucket, std::span<const View> gradients, View dense, bool pack,
                     StreamHandle stream) const;

  std::vector<UnitPartition> units_;
  std::vector<Bucket> buckets_;
  std::size_t world_size_;
  Device device_;
  GradientErrors errors_;
  std::vector<std::unique_ptr<collective::ReduceScatter>> reduce_;
  std::vector<std::unique_ptr<collective::AllGather>> gather_sum_;  ///< stage 0 only
};

}  // namespace zeropp::zero
