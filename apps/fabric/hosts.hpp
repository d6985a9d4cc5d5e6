// The largest set of hosts that have no slow or damaging link among them, and for each other host
// the reason. It is a maximum clique of the graph whose edges are good pairs of hosts, that is, a
// maximum independent set of the bad pairs; hosts without a bad pair belong to every largest set,
// so that the search is over the others alone. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/fabric/judge.hpp"
#include "apps/fabric/map.hpp"

namespace zeropp::fabric {

/// Hosts in bad pairs up to which the search is exact.
inline constexpr std::size_t kExactHosts = 64;

/// Vertices of a graph, in order, no two of them joined.
struct HostSet {
  std::vector<std::size_t> members;
  bool exact = true;  ///< no larger set exists
};

/// The largest set without a bad pair. `bad`: symmetric; a host that is bad itself, bad[i][i], is
/// in no set. Exact where at most kExactHosts hosts have bad pairs; otherwise the host with the
/// most bad pairs goes first, until none is left, and those that fit come back.
HostSet largest_good_set(const std::vector<std::vector<bool>>& bad);

struct BadHost {
  std::string host;
  std::string reason;
  bool faulty = true;  ///< else not all of its links were measured
};

struct Hosts {
  std::vector<std::string> good;  ///< in the order of ranks
  std::vector<BadHost> bad;
  bool exact = true;
};

/// Sorts hosts by what the judgement of the map says: a pair of hosts is bad where a link between
/// their ranks is slow, damages data or was not measured, a host where one inside is. `hosts`: by
/// rank.
Hosts sort_hosts(const FabricMap& map, const Judgement& judgement,
                 const std::vector<std::string>& hosts);

/// The command of Slurm that drains a faulty host.
std::string drain_command(const BadHost& bad);

}  // namespace zeropp::fabric
