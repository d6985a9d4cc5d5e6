#include "lib/plan/planned_topology.hpp"

#include <fmt/format.h>

#include <limits>

#include "lib/base/error.hpp"

namespace zeropp::plan {

comm::Topology planned_topology(std::size_t nodes, std::size_t ranks_per_node) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (nodes == 0 || ranks_per_node == 0 || nodes > kMost / ranks_per_node) {
    throw Error(ExitCode::usage,
                fmt::format("a job of {} nodes with {} ranks each cannot be planned: give 1 of "
                            "each at least, and at most {} ranks",
                            nodes, ranks_per_node, kMost));
  }
  return {.world_size = static_cast<int>(nodes * ranks_per_node),
          .node_count = static_cast<int>(nodes),
          .ranks_per_node = static_cast<int>(ranks_per_node),
          .emulated = false};
}

}  // namespace zeropp::plan
