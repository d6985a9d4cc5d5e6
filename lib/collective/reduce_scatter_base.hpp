// Base of every reduce-scatter algorithm: the chunks of its plan, checks of the memory it is
// given, accounting. An algorithm says in its entry what it moves and takes, and fills in begin()
// and complete().
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/checked.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/draws.hpp"
#include "lib/collective/hop_feedback.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

/// Chunks of the parts of a reduce-scatter, padded to blocks on the wire: a closed form that
/// runners and descriptions share.
class ReduceChunks {
 public:
  /// `largest_block`: of the codecs.
  ReduceChunks(const ReduceScatterPlan& plan, const Traits& traits, std::size_t largest_block)
      : count_(plan.parts.count),
        block_(largest_block),
        chunks_(chunk_plan(count_, traits.one_chunk ? 1 : plan.depth, block_)) {}

  [[nodiscard]] auto begin() const { return chunks_.begin(); }
  [[nodiscard]] auto end() const { return chunks_.end(); }
  [[nodiscard]] std::size_t size() const { return chunks_.size(); }
  [[nodiscard]] Chunk longest() const {
    Chunk longest;
    for (const Chunk& chunk : chunks_) longest.length = std::max(longest.length, chunk.length);
    return longest;
  }
  /// Values of a chunk on the wire; the padded chunks add up to the padded part.
  [[nodiscard]] std::size_t padded(const Chunk& chunk) const {
    return round_up(chunk.length, block_);
  }
  [[nodiscard]] std::size_t padded_part() const { return round_up(count_, block_); }

 private:
  std::size_t count_;  ///< values of a part
  std::size_t block_;  ///< that parts are padded to
  std::vector<Chunk> chunks_;
};

/// Description for an entry's closed form: completes what `traffic` and `workspace` leave to say.
/// `codec` and `path` are written as the trace shows them.
Description described(const ReduceScatterAlgorithm& algorithm, const Ranks& ranks,
                      const ReduceScatterPlan& plan, const Traffic& traffic, std::size_t workspace,
                      const std::string& codec, const std::string& path = "");

class ReduceScatterBase : public ReduceScatter {
 public:
  void start(ConstView full, View sum, const Run& run) final;
  void finish(StreamHandle stream) final;
  [[nodiscard]] std::size_t workspace_bytes() const final { return description_.workspace; }
  [[nodiscard]] comm::Bytes volume() const final { return description_.bytes; }
  [[nodiscard]] Messages messages() const final { return description_.messages; }
  [[nodiscard]] const trace::CollectiveRow& row() const final { return meter_.row(); }

 protected:
  /// `block`: the largest block of the codecs, which parts are padded to.
  ReduceScatterBase(const Context& context, const ReduceScatterPlan& plan,
                    const ReduceScatterAlgorithm& algorithm, std::size_t block);

  /// Encodes and starts the transfer; memory of the run is in full_, sum_; work goes to
  /// stream_.
  virtual void begin() = 0;
  /// Completes the transfers and writes sum_.
  virtual void complete() = 0;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(group_.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(group_.rank()); }
  [[nodiscard]] std::size_t padded(const Chunk& chunk) const { return chunks_.padded(chunk); }
  /// Workspace at an offset that was reserved.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return workspace_.data() + offset; }
  /// The strided slices of `chunk`, from the part of rank `part` on.
  [[nodiscard]] ConstView slices(const Chunk& chunk, std::size_t part = 0) const {
    const std::size_t first = part * plan_.parts.stride + chunk.first;
    return full_.part(first, full_.count - first);
  }
  /// Draw for what this rank encodes of `chunk` on `hop`, part `part` first.
  [[nodiscard]] codec::Draw draw(const Chunk& chunk, std::size_t hop, std::size_t part = 0) const {
    return draw_of(key_, hop, rank(), part, chunk.first);
  }
  [[nodiscard]] float* sum(const Chunk& chunk) const { return sum_.as<float>() + chunk.first; }

  /// Feedback of hop `hop` (1 or 2), which sends `parts` parts, in the space that was reserved;
  /// nothing where the plan asks for none. For the constructors of algorithms.
  [[nodiscard]] std::optional<HopFeedback> feedback_in(int hop, const codec::Codec& codec,
                                                       std::size_t parts,
                                                       const HopSpace& space) const {
    return HopFeedback::planned(plan_.feedback, hop, parts, plan_.parts.count, codec, space);
  }

  comm::Communicator& group_;
  ReduceScatterPlan plan_;
  Description description_;
  Meter meter_;
  ReduceChunks chunks_;
  ConstView full_;
  View sum_;
  StreamHandle stream_;
  std::uint64_t key_ = 0;  ///< of the run's draws

 private:
  std::span<std::byte> workspace_;
};

}  // namespace zeropp::collective
