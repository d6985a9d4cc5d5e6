// A sample of a step's updates, to be computed a second time: a window of one unit, with its
// gradient, master weights and moments from before the update, and what the update made of them.
// The host's rule gives the same bits on every back end (contract 1). Samples go over units and
// windows in rotation. Arrays that lie in files are not sampled. Owns page-locked memory of the
// host, which has the values when the stream has come past keep_old() and keep_new().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/optimizer/optimizer_shard.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

class UpdateSample {
 public:
  /// Elements of a sample at most.
  static constexpr std::size_t kElements = std::size_t{1} << 16U;

  /// `shards`: the parts of the optimizer that lie in memory; they, and the `units` that they were
  /// made with, outlive this.
  UpdateSample(const std::vector<Unit>& units, std::vector<const OptimizerShard*> shards,
               const Device& device);

  /// Begins sample `number`.
  void begin(std::uint64_t number);
  [[nodiscard]] bool is_of(std::size_t unit) const {
    return !candidates_.empty() && unit == sampled().unit;
  }
  /// Keeps what the update of the sampled unit reads, and the arguments that it has. `gradient`:
  /// all that this rank updates of the unit, fp32.
  void keep_old(ConstView gradient, std::uint64_t t, float gradient_scale, double clip,
                StreamHandle stream);
  /// Keeps what it has written.
  void keep_new(StreamHandle stream) const;
  /// The unit whose update was wrong. Nothing where it was right, or where no update was kept since
  /// begin().
  [[nodiscard]] std::optional<std::size_t> judge();

 private:
  struct Candidate {
    const OptimizerShard* shard;
    std::size_t unit;
  };
  [[nodiscard]] const Candidate& sampled() const { return candidates_[candidate_]; }
  /// Bytes of master and moments of `count` elements.
  [[nodiscard]] std::size_t array_bytes(std::size_t count) const;
  /// Copies master and moments of the window to `offset` of the memory.
  void keep_arrays(std::size_t offset, StreamHandle stream) const;
  void keep(const void* from, std::size_t bytes, MemoryKind kind, std::size_t offset,
            StreamHandle stream) const;

  const std::vector<Unit>& units_;
  Device device_;
  std::vector<Candidate> candidates_;
  std::size_t candidate_ = 0;
  Extent window_;  ///< of the candidate's extent
  bool kept_ = false;
  std::uint64_t t_ = 0;
  float gradient_scale_ = 1;
  double clip_ = 1;
  Buffer memory_;  ///< gradient, then the old arrays, then the new ones
};

}  // namespace zeropp::zero
