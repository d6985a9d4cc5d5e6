// Base of every reduce-scatter algorithm: its plan cut into chunks, checks of the memory it is
// given, accounting. An algorithm says in its entry what it moves and takes, and fills in begin()
// and complete().
#pragma once

#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/collective/draws.hpp"
#include "lib/collective/hop_encode.hpp"
#include "lib/collective/meter.hpp"
#include "lib/collective/reduce_chunks.hpp"

namespace zeropp::collective {

/// Description for an entry's closed form: completes what `traffic` and `workspace` leave to say.
/// `codec` and `path` are written as the trace shows them.
Description described(const ReduceScatterAlgorithm& algorithm, const Ranks& ranks,
                      const ReduceScatterPlan& plan, const Traffic& traffic, std::size_t workspace,
                      const std::string& codec, const std::string& path = "");

class ReduceScatterBase : public ReduceScatter {
 public:
  void start(ConstView full, View sum, std::span<std::byte> workspace, StreamHandle stream,
             std::uint64_t key) final;
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

  /// Encoder of hop `hop` (1 or 2), which sends `parts` parts: with feedback where the plan asks
  /// for it, in the space that was reserved. For the constructors of algorithms.
  [[nodiscard]] HopEncode feedback_in(int hop, const codec::Codec& codec, std::size_t parts,
                                      const HopSpace& space);

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
