// Record that the ranks of a run tell each other at the end of a step: one all-gather of the
// control plane.
#pragma once

#include <array>
#include <cstddef>

#include "lib/comm/communicator.hpp"
#include "lib/comm/control.hpp"

namespace zeropp::train {

/// One rank's report on a step, or, from over_ranks(), that of all ranks together.
struct StepRecord {
  double loss = 0;        ///< nats per token; all ranks: the sum, added in rank order
  comm::Bytes sent;       ///< all ranks: the sum
  comm::Bytes predicted;  ///< all ranks: the sum
  int interrupt = 0;  ///< signal or 0; all ranks: the one that counts most (lib/app/interrupt.hpp)

  /// Seconds; all ranks: the largest of each, NaN where a rank has NaN.
  struct Times {
    double step = 0;
    double forward = 0;
    double backward = 0;
    double exposed = 0;  ///< compute waited for communication
    double gather = 0;
    double reduce = 0;
    double agreement = 0;
    double optimizer_before = 0;  ///< the update of the step before, which this step waited for
    double offload_before = 0;
    double gather_before = 0;
    double agreement_before = 0;
  } times;
};

/// Collective. Takes the place of a sum of losses, a sum of bytes, a maximum of times and an
/// agreement about signals; the sums have the bits of Control::all_reduce_sum(). Bytes of a rank
/// and step are exact below 2^53.
[[nodiscard]] StepRecord over_ranks(const StepRecord& own, comm::Control& control);

}  // namespace zeropp::train
