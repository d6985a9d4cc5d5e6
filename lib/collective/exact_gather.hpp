// All-gather of exact differences (kernels/codec/exact.hpp): every rank sends how its part differs
// from the copy that all ranks hold of it, in one step, and all bring their copies up to date. The
// size of an image depends on the values: ranks count first what escapes, agree on one shape, and
// run with it. One run in flight. Owns nothing but its account; the caller lends workspace.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/codec/exact.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

/// Closed form of a run with images of `shape`; its workspace is enough for images of any shape.
Description describe_exact_gather(const Ranks& ranks, const ExactGatherPlan& plan,
                                  const codec::ExactShape& shape);

class ExactGather {
 public:
  ExactGather(const Context& context, const ExactGatherPlan& plan);

  /// Counts, into `escapes` (memory of the device), the differences of the own part that do not fit
  /// each width. `part`: plan.count elements of plan.dtype, or of fp32, which are rounded to it;
  /// `own`: their copy; `workspace`: codec::exact_count_bytes(), until the stream has come past
  /// this call.
  void count(ConstView part, ConstView own, std::span<std::byte> workspace,
             codec::Escapes* escapes, StreamHandle stream) const;
  /// Starts the all-gather. `copies`: those of the parts of all ranks, dense; `shape`: the same on
  /// all ranks, with room for what each of them has counted.
  void start(ConstView part, View copies, const codec::ExactShape& shape, const Run& run);
  /// Enqueues what brings the copies up to date; waits where the host moves the bytes.
  void finish(StreamHandle stream);

 private:
  comm::Communicator& group_;
  const codec::ExactOps& ops_;
  ExactGatherPlan plan_;
  Meter meter_;
  // Of the run in flight.
  codec::ExactShape shape_;
  View copies_;
  std::byte* images_ = nullptr;
  std::unique_ptr<comm::Work> work_;  ///< null where nothing differs
};

}  // namespace zeropp::collective
