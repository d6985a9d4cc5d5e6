// Judgement of what is slow in a fabric, beside its equals: links of one class, rails. Pure
// functions of a map: every rank comes to the same judgement.
//
// The typical value of a class is a median of medians, the lower one of an even number: over ranks,
// of the median over each rank's links. One slow rank of four is on half of all links, and moves
// the median over links; it does not move the typical value. A link is slow when even its fastest
// repetition takes longer than is typical by more than each of: the threshold, five robust standard
// deviations (1.4826 times the median absolute deviation) of the class, three times what the
// repetitions of one link differ by, a tenth of a microsecond.
// A rank is slow when more than half of its links of a class are, and it has several; its links are
// then not named one by one. Sources: Hampel, JASA 69 (1974), median and MAD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/fabric/map.hpp"

namespace zeropp::fabric {

/// One class of links, or the rails. Values as shown(): us or GB/s.
struct LinkClassSummary {
  std::string name;  ///< "intra-node", ..., "rail"
  Metric metric = Metric::latency;
  std::size_t count = 0;          ///< measured links or rails
  double median = kNotMeasured;   ///< of all of them, as they are shown
  double typical = kNotMeasured;  ///< what each is judged by: a median of medians
  double worst = kNotMeasured;
  double limit = kNotMeasured;  ///< beyond it something counts as slow
};

/// Something slow, or that damages data.
struct Fault {
  enum class Kind { rank, link, rail, corrupted };
  Kind kind = Kind::link;
  Metric metric = Metric::latency;
  std::string name;  ///< of its class
  int first = 0;     ///< the rank, the sender, or the rail
  int second = -1;   ///< of a link: the receiver
  bool both_ways = false;
  std::size_t slow_links = 0;  ///< of a rank: how many of its links are slow
  std::size_t links = 0;       ///< of a rank: of how many
  double value = 0;            ///< as shown(); of a rank by the median time of its slow links
  double typical = 0;          ///< of its class, as shown()
  double times = 0;            ///< how many times as long as typical it takes
  std::size_t corrupted = 0;   ///< words
};

constexpr std::string_view name_of(Fault::Kind kind) {
  constexpr std::string_view names[] = {"rank", "link", "rail", "corrupted"};
  return names[static_cast<std::size_t>(kind)];
}

struct Judgement {
  std::vector<LinkClassSummary> classes;
  std::vector<Fault> faults;                                  ///< ranks first
  std::vector<std::pair<std::size_t, std::size_t>> suspects;  ///< slow links, also those of ranks
};

/// Judges a map. `threshold` is a share of the typical time, above 0.
Judgement judge(const FabricMap& map, double threshold);

/// Description of a fault in one line: what, on which host, how far from its class. `hosts` by
/// rank.
std::string describe(const Fault& fault, const std::vector<std::string>& hosts);

}  // namespace zeropp::fabric
