#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

bool is_collective(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
    case OpKind::gather_secondary:
    case OpKind::exchange:
    case OpKind::refresh:
    case OpKind::reduce:
    case OpKind::gather_sum:
    case OpKind::reduce_over_replicas:
    case OpKind::gather_over_replicas:
      return true;
    case OpKind::keep_secondary:
    case OpKind::forward:
    case OpKind::backward:
    case OpKind::clear_gradients:
    case OpKind::end_reduce:
    case OpKind::update:
      break;
  }
  return false;
}

comm::Bytes volume(const Op& op, const Volumes& volumes) {
  return is_collective(op.kind) ? volumes[collective_of(op)].at(op.index) : comm::Bytes{};
}

comm::Bytes volume(const Schedule& schedule, const Volumes& volumes) {
  comm::Bytes total;
  for (const Op& op : schedule.ops) total += volume(op, volumes);
  return total;
}

}  // namespace zeropp::zero
