// Results that a training step reports, on this rank.
#pragma once

#include "lib/comm/traffic.hpp"

namespace zeropp::zero {

/// Result of a step, on this rank.
struct StepResult {
  double loss = 0;  ///< nats a token, mean over this rank's micro-steps
  /// Global norm of the mean gradient, without the loss's scale, before clipping; NaN or Inf when
  /// skipped.
  double grad_norm = 0;
  double loss_scale = 1;     ///< that backward ran with
  double learning_rate = 0;  ///< of this step; where it is skipped, of the one that is taken next
  bool exhausted = false;    ///< skipped at the smallest loss scale: training cannot go on
  bool skipped = false;      ///< a non-finite gradient on some rank: no rank stepped
  bool damaged = false;      ///< skipped, but backward had updated weights: they are of no use
  comm::Bytes sent;          ///< counted
  comm::Bytes predicted;     ///< closed form
  double time_forward = 0;   ///< seconds on the compute stream
  double time_backward = 0;  ///< seconds until the last reduction is done
  double time_exposed = 0;   ///< of both, that compute waited for gathers, those behind the last
                             ///< update included, and reductions, at stage 3 also for the update
                             ///< before a unit's first gather; on the host, which has one thread,
                             ///< with the codec work of these
  double time_gather = 0;    ///< in which gathers of weights were at work, beside compute or not
  double time_reduce = 0;    ///< in which reductions of gradients were at work
};

/// Times of what followed the gradients of a step, in seconds, on this rank; zero where the step
/// was skipped.
struct UpdateTimes {
  double optimizer = 0;  ///< the optimizer was at work: on a GPU beside the next step's begin
  double offload = 0;    ///< the host was busy with, or waited for, the part that is offloaded
  double gather = 0;     ///< updated weights were gathered (stages 1 and 2, units that persist): on
                         ///< a GPU beside the next step's begin
};

}  // namespace zeropp::zero
