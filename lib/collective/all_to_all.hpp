// All-to-all of equal parts: part p of rank r becomes part r of rank p, encoded on the way by any
// codec, the own part included. One message a pair and chunk.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/collective/chunks.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

struct AllToAllPlan {
  Parts parts;
  Dtype memory = Dtype::fp32;  ///< dtype of the input; `none` sends this dtype
  codec::CodecSpec codec;
  std::size_t depth = 1;  ///< pipeline chunks; 1: none
  std::string purpose{};  ///< of its runs, in the trace
};

class AllToAll {
 public:
  /// Throws Error(usage) for a codec that is unknown or a depth of 0.
  AllToAll(const Context& context, const AllToAllPlan& plan);

  /// Starts the all-to-all. `in`: size strided parts of the planned dtype; `out`: size strided
  /// parts of any dtype.
  void start(ConstView in, View out, const Run& run);
  void finish(StreamHandle stream);
  [[nodiscard]] std::size_t workspace_bytes() const { return space_.bytes(); }
  /// Closed form: bytes that this rank sends in one run.
  [[nodiscard]] comm::Bytes volume() const;
  [[nodiscard]] const trace::CollectiveRow& row() const { return meter_.row(); }

 private:
  struct Piece {
    Chunk chunk;
    codec::Layout layout;  ///< of the parts' chunks: one image per rank
    std::size_t image_bytes;
    std::size_t out;
    std::size_t in;
    std::unique_ptr<comm::Work> work;
  };

  comm::Communicator& group_;
  AllToAllPlan plan_;
  codec::Codec codec_;
  Meter meter_;
  WorkspacePlan space_;
  std::vector<Piece> pieces_;
  View out_;
  std::span<std::byte> workspace_;
  StreamHandle stream_;
};

}  // namespace zeropp::collective
