#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

comm::Bytes volume(const Op& op, const Volumes& volumes) {
  if (sends(op.kind) == Sends::nothing) return {};
  return volumes[collective_of(op)].at(op.index);
}

comm::Bytes volume(const Schedule& schedule, const Volumes& volumes) {
  comm::Bytes total;
  for (const Op& op : schedule.ops) total += volume(op, volumes);
  return total;
}

}  // namespace zeropp::zero
