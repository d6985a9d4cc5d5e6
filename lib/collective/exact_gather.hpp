// All-gather of exact differences (kernels/codec/exact.hpp): every rank sends how its part differs
// from the copy that all ranks hold of it, and all bring their copies up to date. Images travel in
// one step or, in the algorithm two-level, across nodes and then inside them. The size of an image
// depends on the values: ranks count first what escapes, agree on one shape, and run with it. One
// run in flight. Owns nothing but its account; the caller lends workspace.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/codec/exact.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

class ExactGather {
 public:
  ExactGather(std::string_view algorithm, const Context& context, const ExactGatherPlan& plan);

  /// Counts, into `escapes` (memory of the device), the differences of the own part that do not fit
  /// each width. `part`: plan.count elements of plan.dtype, or of fp32, which are rounded to it;
  /// `own`: their copy; `workspace`: codec::exact_count_bytes(), until the stream has come past
  /// this call.
  void count(ConstView part, ConstView own, std::span<std::byte> workspace, codec::Escapes* escapes,
             StreamHandle stream) const;
  /// Starts the all-gather. `copies`: those of the parts of all ranks, dense; `shape`: the same on
  /// all ranks, with room for what each of them has counted.
  void start(ConstView part, View copies, const codec::ExactShape& shape, const Run& run);
  /// Enqueues what brings the copies up to date; waits where the host moves the bytes.
  void finish(StreamHandle stream);

 private:
  /// Rank of the image in slot `slot`, in two levels: what one rail brings lies together, so that
  /// it is one message inside the node.
  [[nodiscard]] std::size_t rank_of(std::size_t slot) const;

  comm::Communicator& group_;
  comm::Groups* levels_;  ///< whose rail and node carry the images; null: the group does
  const codec::ExactOps& ops_;
  ExactGatherPlan plan_;
  Meter meter_;
  // The run in flight.
  codec::ExactShape shape_;
  View copies_;
  std::byte* images_ = nullptr;  ///< of all ranks, by slot
  std::size_t image_bytes_ = 0;
  std::unique_ptr<comm::Work> work_;  ///< null where nothing differs
};

}  // namespace zeropp::collective
