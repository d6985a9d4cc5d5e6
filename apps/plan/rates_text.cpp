#include "apps/plan/rates_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lib/base/units.hpp"

namespace zeropp::plan_app {

namespace {

/// `less_than`: what a range that begins at the slowest link is introduced with.
std::vector<std::string> ranges_of(std::span<const plan::Rates> pays, double times,
                                   const plan::Cluster& cluster, std::string_view less_than,
                                   std::string_view more_than) {
  std::vector<std::string> words;
  for (const plan::Rates& range : pays) {
    const std::string from = gbit_as_sold(range.from * times, cluster);
    const std::string below = gbit_as_sold(range.below * times, cluster);
    if (range.from <= plan::kSlowestLink) {
      words.push_back(fmt::format("{}{}", less_than, below));
    } else if (range.below >= plan::kFastestLink) {
      words.push_back(fmt::format("{}{}", more_than, from));
    } else {
      words.push_back(fmt::format("{} to {}", from, below));
    }
  }
  return words;
}

}  // namespace

std::string gbit_as_sold(double rate, const plan::Cluster& cluster) {
  const double value = rate / cluster.rails.sold_share / kGigabit;
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string_view as_sold(const plan::Cluster& cluster) {
  return cluster.rails.sold_share < 1 ? " as sold" : "";
}

bool always_pays(std::span<const plan::Rates> pays) {
  return pays.size() == 1 && pays[0].from <= plan::kSlowestLink &&
         pays[0].below >= plan::kFastestLink;
}

std::string pays_text(std::span<const plan::Rates> pays, double times,
                      const plan::Cluster& cluster) {
  if (pays.empty()) return "never";
  if (always_pays(pays)) return "always";
  return fmt::format("{}", fmt::join(ranges_of(pays, times, cluster, "", "over "), ", "));
}

std::string pays_below_text(std::span<const plan::Rates> pays, double times,
                            const plan::Cluster& cluster) {
  return pays_text(pays.first(std::min<std::size_t>(pays.size(), 1)), times, cluster);
}

std::string tried_text(double times, const plan::Cluster& cluster) {
  return fmt::format("{} to {} Gbit/s{}", gbit_as_sold(plan::kSlowestLink * times, cluster),
                     gbit_as_sold(plan::kFastestLink * times, cluster), as_sold(cluster));
}

std::string pays_phrase(std::span<const plan::Rates> pays, double times,
                        const plan::Cluster& cluster) {
  return fmt::format(
      "{}", fmt::join(ranges_of(pays, times, cluster, "less than ", "more than "), ", or "));
}

}  // namespace zeropp::plan_app
