#include "lib/comm/topology.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"

namespace zeropp::comm {

std::string Topology::describe() const {
  const auto counted = [](int count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  std::string text =
      uniform()
          ? fmt::format("{} x {}", counted(node_count, "node"), counted(ranks_per_node, "rank"))
          : fmt::format("{} on {} of unequal size", counted(world_size, "rank"),
                        counted(node_count, "node"));
  if (emulated) text += " (emulated)";
  return text;
}

Topology declared_topology(int world_size, int node_size) {
  if (node_size < 1 || world_size % node_size != 0) {
    throw Error(ExitCode::environment,
                fmt::format("{} ranks cannot be laid out as nodes of {}: start a multiple of {} "
                            "ranks, or declare a node size that divides {}",
                            world_size, node_size, node_size, world_size));
  }
  return {world_size, world_size / node_size, node_size, true};
}

}  // namespace zeropp::comm
