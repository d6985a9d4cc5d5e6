// Placement of the ranks for people and for programs: the rows of a table, and a JSON array.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/app/placement.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::app {

/// A cell of a table: "-" in place of an empty text or a negative number, which mean that there is
/// none.
std::string or_dash(const std::string& text);
std::string or_dash(int number);

/// Names of the columns of placement_rows().
std::vector<std::string> placement_columns();

/// A row a rank: rank, node, local rank, host, GPU with its PCI address and NUMA node, how many of
/// the machine's GPUs it sees, its processors with their NUMA nodes, the nearest interfaces. "-" is
/// what there is not. `nodes`: of as many ranks.
std::vector<std::vector<std::string>> placement_rows(const std::vector<RankPlace>& ranks,
                                                     const std::vector<comm::LocalRank>& nodes);

/// An object a rank, with all interfaces of its machine; docs/operators/fabric.md has the keys.
nlohmann::json placement_json(const std::vector<RankPlace>& ranks);

}  // namespace zeropp::app
