// What every reduce-scatter algorithm keeps: its plan cut into chunks, checks of the memory it is
// given, accounting. An algorithm reserves workspace when planned and fills in begin() and
// complete().
#pragma once

#include <vector>

#include "lib/collective/chunks.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/draws.hpp"
#include "lib/collective/error_feedback.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

class ReduceScatterBase : public ReduceScatter {
 public:
  void start(ConstView full, View sum, std::span<std::byte> workspace, StreamHandle stream,
             std::uint64_t key) final;
  void finish(StreamHandle stream) final;
  [[nodiscard]] std::size_t workspace_bytes() const final { return space_.bytes(); }
  [[nodiscard]] const trace::CollectiveRow& row() const final { return meter_.row(); }

 protected:
  /// `codec` and `path` as the trace shows them; `block`: the largest block of the codecs, which
  /// parts are padded to.
  ReduceScatterBase(const Context& context, const ReduceScatterPlan& plan,
                    const ReduceScatterAlgorithm& algorithm, const std::string& codec,
                    std::string_view path, std::size_t block, std::size_t depth);

  /// Encodes and starts the transfer; memory of the run is in full_, sum_; work goes to
  /// stream_.
  virtual void begin() = 0;
  /// Completes the transfers and writes sum_.
  virtual void complete() = 0;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(group_.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(group_.rank()); }
  /// Values of a chunk on the wire; the padded chunks add up to the padded part.
  [[nodiscard]] std::size_t padded(const Chunk& chunk) const {
    return round_up(chunk.length, block_);
  }
  [[nodiscard]] std::size_t padded_part() const { return round_up(plan_.parts.count, block_); }
  /// Workspace at an offset that was reserved.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return workspace_.data() + offset; }
  /// The strided slices of `chunk`, from the part of rank `part` on.
  [[nodiscard]] ConstView slices(const Chunk& chunk, std::size_t part = 0) const {
    const std::size_t first = part * plan_.parts.stride + chunk.first;
    return full_.part(first, full_.count - first);
  }
  /// Of what this rank encodes of `chunk` on `hop`, part `part` first.
  [[nodiscard]] codec::Draw draw(const Chunk& chunk, std::size_t hop, std::size_t part = 0) const {
    return draw_of(key_, hop, rank(), part, chunk.first);
  }
  [[nodiscard]] float* sum(const Chunk& chunk) const { return sum_.as<float>() + chunk.first; }

  /// What encodes hop `hop` (1 or 2), which sends `parts` parts: with feedback where the plan asks
  /// for it. `largest`: of the longest chunk. For the constructors of algorithms.
  [[nodiscard]] HopEncode feedback_in(int hop, const codec::Codec& codec, std::size_t parts,
                                      const codec::Layout& largest);
  [[nodiscard]] Chunk longest_chunk() const;

  comm::Communicator& group_;
  ReduceScatterPlan plan_;
  Meter meter_;
  WorkspacePlan space_;
  std::vector<Chunk> chunks_;
  ConstView full_;
  View sum_;
  StreamHandle stream_;
  std::uint64_t key_ = 0;  ///< of the run's draws

 private:
  std::size_t block_;
  std::span<std::byte> workspace_;
};

}  // namespace zeropp::collective
