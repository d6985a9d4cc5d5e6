// Names of the operations, streams and phases of a schedule: in ranges of profilers, plans and
// traces.
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
      return "gather";
    case OpKind::gather_secondary:
      return "gather_secondary";
    case OpKind::exchange:
      return "exchange";
    case OpKind::keep_secondary:
      return "keep_secondary";
    case OpKind::agree:
      return "agree";
    case OpKind::forward:
      return "forward";
    case OpKind::backward:
      return "backward";
    case OpKind::clear_gradients:
      return "clear_gradients";
    case OpKind::reduce:
      return "reduce";
    case OpKind::end_reduce:
      return "end_reduce";
    case OpKind::gather_sum:
      return "gather_sum";
    case OpKind::reduce_over_replicas:
      return "reduce_across";
    case OpKind::gather_over_replicas:
      return "gather_across";
    case OpKind::update:
      return "update";
    case OpKind::refresh:
      return "refresh";
  }
  return "?";
}

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::evaluation:
      return "evaluation";
    case Phase::update:
      return "update";
    case Phase::initial:
      return "initial";
  }
  return "?";
}

const char* name_of(StreamId id) {
  switch (id) {
    case StreamId::compute:
      return "compute";
    case StreamId::gather:
      return "gather";
    case StreamId::gather_end:
      return "gather_end";
    case StreamId::reduce:
      return "reduce";
    case StreamId::reduce_end:
      return "reduce_end";
    case StreamId::secondary:
      return "secondary";
    case StreamId::update:
      return "update";
  }
  return "?";
}

}  // namespace zeropp::zero
