#include "lib/collective/description.hpp"

namespace zeropp::collective {

comm::Bytes bytes_to_others(const comm::GroupShape& group, std::size_t bytes) {
  return {.intra = group.node_peers * bytes, .inter = group.other_nodes_peers() * bytes};
}

comm::Bytes bytes_along_ring(const comm::GroupShape& group, std::size_t bytes) {
  comm::Bytes sum;
  sum.add(group.next, (group.size - 1) * bytes);
  return sum;
}

}  // namespace zeropp::collective
