// Byte counters: incremented where bytes are sent, by link class, into the row of the collective
// that sends them. Counts are of this rank; a trace sums them over ranks.
#pragma once

#include <cstdint>

#include "lib/comm/topology.hpp"

namespace zeropp::comm {

struct Bytes {
  std::uint64_t intra = 0;  ///< to another rank of the same node
  std::uint64_t inter = 0;  ///< across nodes

  void add(LinkClass link, std::uint64_t bytes) {
    if (link == LinkClass::intra_node) intra += bytes;
    if (link == LinkClass::inter_node) inter += bytes;
  }
  Bytes& operator+=(const Bytes& other) {
    intra += other.intra;
    inter += other.inter;
    return *this;
  }
  friend Bytes operator-(Bytes a, const Bytes& b) { return {a.intra - b.intra, a.inter - b.inter}; }
  bool operator==(const Bytes&) const = default;
};

}  // namespace zeropp::comm
