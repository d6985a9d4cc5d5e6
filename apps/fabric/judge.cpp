#include "apps/fabric/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "lib/base/statistics.hpp"

namespace zeropp::fabric {

namespace {

constexpr double kDeviations = 5 * 1.4826;  // of the MAD: five standard deviations of normal noise
constexpr double kSpreads = 3;
constexpr double kResolution = 1e-7;  // s: what caches and the reading of a clock can be taken for

/// The lower one of an even number; NaN of none.
double lower_median(std::vector<double> values) {
  if (values.empty()) return kNotMeasured;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Links of one class and metric that were measured.
class LinksOfClass {
 public:
  LinksOfClass(const FabricMap& map, comm::LinkClass link_class, Metric metric)
      : map_(map), metric_(metric), by_rank_(map.ranks()) {
    for (std::size_t from = 0; from < map.ranks(); ++from) {
      for (std::size_t to = 0; to < map.ranks(); ++to) {
        if (map.link_class(from, to) != link_class || std::isnan(timing(from, to).value)) continue;
        links_.emplace_back(from, to);
        by_rank_[from].emplace_back(from, to);
        if (from != to) by_rank_[to].emplace_back(from, to);
      }
    }
  }

  using Ends = std::pair<std::size_t, std::size_t>;
  [[nodiscard]] const std::vector<Ends>& links() const { return links_; }
  [[nodiscard]] const Timing& at(const Ends& ends) const { return timing(ends.first, ends.second); }

  /// Typical value: the median over ranks of the median over each rank's links.
  [[nodiscard]] double typical_of(const std::function<double(const Timing&)>& read) const {
    std::vector<double> medians;
    for (const auto& links : by_rank_) {
      if (links.empty()) continue;
      std::vector<double> values;
      values.reserve(links.size());
      for (const auto& [from, to] : links) values.push_back(read(timing(from, to)));
      medians.push_back(lower_median(std::move(values)));
    }
    return lower_median(std::move(medians));
  }

  /// Number of other ranks that this rank has such links with.
  [[nodiscard]] std::size_t peers(std::size_t rank) const {
    std::set<std::size_t> all;
    for (const auto& [from, to] : by_rank_[rank]) all.insert(from == rank ? to : from);
    return all.size();
  }

 private:
  [[nodiscard]] const Timing& timing(std::size_t from, std::size_t to) const {
    return map_.link(from, to).of(metric_);
  }

  const FabricMap& map_;
  Metric metric_;
  std::vector<Ends> links_;
  std::vector<std::vector<Ends>> by_rank_;  ///< that begin or end there
};

double limit_of(double typical, double deviation, double spread, double threshold) {
  return typical +
         std::max({threshold * typical, kDeviations * deviation, kSpreads * spread, kResolution});
}

/// Rest of a class after its slow links were found.
struct SlowLinks {
  Metric metric;
  std::string name;
  double typical = 0;
  std::vector<LinksOfClass::Ends> links;
  std::vector<std::size_t> peers;  ///< by rank
};

class Judge {
 public:
  Judge(const FabricMap& map, double threshold) : map_(map), threshold_(threshold) {}

  Judgement run() {
    for (const comm::LinkClass link_class : kLinkClasses) {
      for (const Metric metric : kMetrics) judge_class(link_class, metric);
    }
    name_ranks();
    for (const SlowLinks& of_class : slow_links_) name_links(of_class);
    for (const Metric metric : kMetrics) judge_rails(metric);
    name_corrupted();
    return std::move(result_);
  }

 private:
  void judge_class(comm::LinkClass link_class, Metric metric) {
    const LinksOfClass all(map_, link_class, metric);
    if (all.links().empty()) return;
    SlowLinks slow{metric, std::string(name_of(link_class)), 0, {}, {}};
    slow.typical = all.typical_of([](const Timing& t) { return t.value; });
    const double deviation =
        all.typical_of([&](const Timing& t) { return std::abs(t.value - slow.typical); });
    const double spread = all.typical_of([](const Timing& t) { return t.spread; });
    const double limit = limit_of(slow.typical, deviation, spread, threshold_);
    std::vector<double> seconds;
    for (const auto& ends : all.links()) {
      seconds.push_back(all.at(ends).value);
      if (all.at(ends).least > limit) slow.links.push_back(ends);
    }
    for (std::size_t rank = 0; rank < map_.ranks(); ++rank) slow.peers.push_back(all.peers(rank));
    add_class(slow.name, metric, seconds, {slow.typical, limit}, map_.message_bytes);
    result_.suspects.insert(result_.suspects.end(), slow.links.begin(), slow.links.end());
    slow_links_.push_back(std::move(slow));
  }

  /// Seconds that the links of a class are judged by.
  struct Measure {
    double typical;
    double limit;
  };
  void add_class(const std::string& name, Metric metric, const std::vector<double>& seconds,
                 const Measure& measure, std::size_t bytes) {
    std::vector<double> values(
        seconds.size());  // whose median is that of what is shown of the links
    std::ranges::transform(seconds, values.begin(),
                           [&](double each) { return shown(metric, each, bytes); });
    result_.classes.push_back(
        {name, metric, seconds.size(), median(values), shown(metric, measure.typical, bytes),
         shown(metric, std::ranges::max(seconds), bytes), shown(metric, measure.limit, bytes)});
  }

  [[nodiscard]] static std::set<std::size_t> slow_peers(const SlowLinks& of_class,
                                                        std::size_t rank) {
    std::set<std::size_t> peers;
    for (const auto& [from, to] : of_class.links) {
      if (from == to) continue;
      if (from == rank) peers.insert(to);
      if (to == rank) peers.insert(from);
    }
    return peers;
  }

  /// The rank with the most slow links first: what is left of the others is then their own.
  void name_ranks() {
    for (;;) {
      std::size_t most = 0;
      std::size_t named = 0;
      for (std::size_t rank = 0; rank < map_.ranks(); ++rank) {
        std::size_t count = 0;
        bool is_slow = false;
        for (const SlowLinks& of_class : slow_links_) {
          const std::size_t slow = slow_peers(of_class, rank).size();
          count += slow;
          is_slow = is_slow || (slow >= 2 && 2 * slow > of_class.peers[rank]);
        }
        if (!is_slow || count <= most) continue;
        most = count;
        named = rank;
      }
      if (most == 0) return;
      for (SlowLinks& of_class : slow_links_) name_rank(of_class, named);
    }
  }

  void name_rank(SlowLinks& of_class, std::size_t rank) {
    const std::size_t peers = slow_peers(of_class, rank).size();
    if (peers == 0) return;
    std::vector<double> values;
    std::erase_if(of_class.links, [&](const LinksOfClass::Ends& ends) {
      if (ends.first != rank && ends.second != rank) return false;
      values.push_back(map_.link(ends.first, ends.second).of(of_class.metric).value);
      return true;
    });
    Fault fault = slow_of(of_class, median(values));
    fault.kind = Fault::Kind::rank;
    fault.first = static_cast<int>(rank);
    fault.slow_links = peers;
    fault.links = of_class.peers[rank];
    result_.faults.push_back(std::move(fault));
  }

  void name_links(const SlowLinks& of_class) {
    const std::set<LinksOfClass::Ends> all(of_class.links.begin(), of_class.links.end());
    for (const auto& [from, to] : all) {
      const bool both = from != to && all.contains({to, from});
      if (both && to < from) continue;  // named with the other
      const double value = map_.link(from, to).of(of_class.metric).value;
      const double back = both ? map_.link(to, from).of(of_class.metric).value : value;
      Fault fault = slow_of(of_class, std::max(value, back));
      fault.first = static_cast<int>(from);
      fault.second = static_cast<int>(to);
      fault.both_ways = both;
      result_.faults.push_back(std::move(fault));
    }
  }

  [[nodiscard]] Fault slow_of(const SlowLinks& of_class, double seconds) const {
    Fault fault;
    fault.metric = of_class.metric;
    fault.name = of_class.name;
    fault.value = shown(of_class.metric, seconds, map_.message_bytes);
    fault.typical = shown(of_class.metric, of_class.typical, map_.message_bytes);
    fault.times = seconds / of_class.typical;
    return fault;
  }

  /// A rail is as slow as the slowest of its ranks.
  void judge_rails(Metric metric) {
    if (map_.rails.empty()) return;
    std::vector<Timing> rails;
    for (std::size_t rank = 0; rank < map_.ranks(); ++rank) {
      const auto local = static_cast<std::size_t>(map_.local_ranks[rank].local);
      if (local >= rails.size()) rails.resize(local + 1, {0, 0, 0});
      const Timing& own = map_.rails[rank].of(metric);
      if (std::isnan(own.value) || own.value > rails[local].value) rails[local] = own;
    }
    std::vector<double> values;
    std::vector<double> spreads;
    for (const Timing& rail : rails) {
      if (std::isnan(rail.value)) continue;
      values.push_back(rail.value);
      spreads.push_back(rail.spread);
    }
    if (values.empty()) return;
    const double typical = lower_median(values);
    std::vector<double> deviations;
    deviations.reserve(values.size());
    for (const double value : values) deviations.push_back(std::abs(value - typical));
    const double limit =
        limit_of(typical, lower_median(deviations), lower_median(spreads), threshold_);
    add_class("rail", metric, values, {typical, limit}, map_.rail_bytes);
    for (std::size_t rail = 0; rail < rails.size(); ++rail) {
      if (!(rails[rail].least > limit)) continue;
      Fault fault;
      fault.kind = Fault::Kind::rail;
      fault.metric = metric;
      fault.name = "rail";
      fault.first = static_cast<int>(rail);
      fault.value = shown(metric, rails[rail].value, map_.rail_bytes);
      fault.typical = shown(metric, typical, map_.rail_bytes);
      fault.times = rails[rail].value / typical;
      result_.faults.push_back(std::move(fault));
    }
  }

  void name_corrupted() {
    for (std::size_t from = 0; from < map_.ranks(); ++from) {
      for (std::size_t to = 0; to < map_.ranks(); ++to) {
        const double words = map_.link(from, to).corrupted;
        if (words == 0) continue;
        Fault fault;
        fault.kind = Fault::Kind::corrupted;
        fault.name = name_of(map_.link_class(from, to));
        fault.first = static_cast<int>(from);
        fault.second = static_cast<int>(to);
        fault.corrupted = static_cast<std::size_t>(words);
        result_.faults.push_back(std::move(fault));
      }
    }
  }

  const FabricMap& map_;
  double threshold_;
  std::vector<SlowLinks> slow_links_;
  Judgement result_;
};

/// "latency 48.1 us, 12.0 times the typical 4.0 us"
std::string deviation(const Fault& fault) {
  if (fault.metric == Metric::latency) {
    return fmt::format("latency {:.4g} us, {:.2f} times the typical {:.4g} us", fault.value,
                       fault.times, fault.typical);
  }
  return fmt::format("bandwidth {:.4g} GB/s, {:.0f} % below the typical {:.4g} GB/s", fault.value,
                     100 * (1 - fault.value / fault.typical), fault.typical);
}

}  // namespace

Judgement judge(const FabricMap& map, double threshold) { return Judge(map, threshold).run(); }

std::string describe(const Fault& fault, const std::vector<std::string>& hosts) {
  const auto rank = [&](int number) {
    return fmt::format("rank {} ({})", number, hosts.at(static_cast<std::size_t>(number)));
  };
  switch (fault.kind) {
    case Fault::Kind::rank:
      return fmt::format("{} is slow on {} of its {} {} links: {}", rank(fault.first),
                         fault.slow_links, fault.links, fault.name, deviation(fault));
    case Fault::Kind::rail:
      return fmt::format("rail {} (local rank {} of every node) is slow under load: {}",
                         fault.first, fault.first, deviation(fault));
    case Fault::Kind::corrupted:
      return fmt::format("the {} link from {} to {} damages data: {} words of a message are wrong",
                         fault.name, rank(fault.first), rank(fault.second), fault.corrupted);
    case Fault::Kind::link:
      break;
  }
  if (fault.first == fault.second) {
    return fmt::format("{} is slow to copy its own memory: {}", rank(fault.first),
                       deviation(fault));
  }
  return fmt::format("the {} link {} {} {} {} is slow{}: {}", fault.name,
                     fault.both_ways ? "between" : "from", rank(fault.first),
                     fault.both_ways ? "and" : "to", rank(fault.second),
                     fault.both_ways ? " both ways" : "", deviation(fault));
}

}  // namespace zeropp::fabric
