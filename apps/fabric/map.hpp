// Map of a fabric: every link from rank to rank, and every rail under load, as they were measured.
// Times are kept, so that what is slow is always what is large; NaN was not measured.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/units.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::fabric {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// Seconds, over repetitions. `spread`: between the smallest and the median, what noise makes of
/// equal things.
struct Timing {
  double value = kNotMeasured;
  double spread = kNotMeasured;
  double least = kNotMeasured;
};

enum class Metric : std::uint8_t { latency, bandwidth };
inline constexpr Metric kMetrics[] = {Metric::latency, Metric::bandwidth};

/// Link from one rank to another; a rank's link to itself is a copy of its own memory. Or an
/// all-reduce of the two, as the one that stands for the sender saw it.
struct Link {
  Timing latency;   ///< half a round trip that the sender began, or an all-reduce: the smallest
  Timing transfer;  ///< of a large message, acknowledged, or an all-reduce: the median
  double corrupted = 0;  ///< words of the last large message that did not arrive as they were sent

  [[nodiscard]] const Timing& of(Metric metric) const {
    return metric == Metric::latency ? latency : transfer;
  }
  [[nodiscard]] bool measured() const {
    return !std::isnan(latency.value) && !std::isnan(transfer.value);
  }
};

/// Load of a rail that a rank sees when every rank exchanges with all others of its rail at once.
struct RailLoad {
  Timing latency;   ///< of one exchange of small messages
  Timing transfer;  ///< of one exchange of `rail_bytes` a rank

  [[nodiscard]] const Timing& of(Metric metric) const {
    return metric == Metric::latency ? latency : transfer;
  }
  [[nodiscard]] bool measured() const { return !std::isnan(latency.value); }
};

struct FabricMap {
  std::vector<comm::LocalRank> local_ranks;  ///< by rank
  std::size_t message_bytes = 0;             ///< of a large message
  std::size_t rail_bytes = 0;       ///< what a rank sends in a loaded rail; 0: there are no rails
  std::vector<Link> links;          ///< row: sender, column: receiver
  std::vector<RailLoad> rails;      ///< by rank; empty where there are no rails
  std::size_t rounds = 0;           ///< that cover all pairs
  std::size_t measured_rounds = 0;  ///< that there was time for
  std::size_t repeated = 0;         ///< rounds measured again because something looked slow
  /// Share of the last look for which each rank waited for a processor, and ranks that waited long:
  /// what looks slow on them counts as not measured.
  std::vector<double> waited;
  std::set<std::size_t> busy;

  [[nodiscard]] std::size_t ranks() const { return local_ranks.size(); }
  [[nodiscard]] Link& link(std::size_t from, std::size_t to) { return links[from * ranks() + to]; }
  [[nodiscard]] const Link& link(std::size_t from, std::size_t to) const {
    return links[from * ranks() + to];
  }
  [[nodiscard]] comm::LinkClass link_class(std::size_t from, std::size_t to) const {
    if (from == to) return comm::LinkClass::self;
    return local_ranks[from].node == local_ranks[to].node ? comm::LinkClass::intra_node
                                                          : comm::LinkClass::inter_node;
  }
  /// Pairs of ranks, the lower one first, with a direction that was not measured; a rank and itself
  /// where the copy of its memory was not.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> unmeasured() const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t low = 0; low < ranks(); ++low) {
      for (std::size_t high = low; high < ranks(); ++high) {
        if (!link(low, high).measured() || !link(high, low).measured()) {
          pairs.emplace_back(low, high);
        }
      }
    }
    return pairs;
  }
};

inline constexpr comm::LinkClass kLinkClasses[] = {
    comm::LinkClass::self, comm::LinkClass::intra_node, comm::LinkClass::inter_node};
constexpr std::string_view name_of(comm::LinkClass link) {
  switch (link) {
    case comm::LinkClass::self:
      return "self";
    case comm::LinkClass::intra_node:
      return "intra-node";
    case comm::LinkClass::inter_node:
      break;
  }
  return "inter-node";
}

/// A latency in us, or of a transfer of `bytes` the bandwidth in GB/s.
constexpr double shown(Metric metric, double seconds, std::size_t bytes) {
  return metric == Metric::latency ? seconds / kMicro : static_cast<double>(bytes) / seconds * 1e-9;
}
constexpr std::string_view unit_of(Metric metric) {
  return metric == Metric::latency ? "us" : "GB/s";
}
constexpr std::string_view name_of(Metric metric) {
  return metric == Metric::latency ? "latency" : "bandwidth";
}

}  // namespace zeropp::fabric
