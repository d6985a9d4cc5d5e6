#include "apps/plan/rates_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lib/base/units.hpp"

namespace zeropp::plan_app {

std::string gbit_as_sold(double rate, const plan::Cluster& cluster) {
  const double value = rate / cluster.rails.sold_share / kGigabit;
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string_view as_sold(const plan::Cluster& cluster) {
  return cluster.rails.sold_share < 1 ? " as sold" : "";
}

std::string pays_text(std::span<const plan::Rates> pays, double times,
                      const plan::Cluster& cluster) {
  if (pays.empty()) return "never";
  std::vector<std::string> ranges;
  for (const plan::Rates& range : pays) {
    const bool to_the_end = range.below >= plan::kFastestLink;
    const std::string from = gbit_as_sold(range.from * times, cluster);
    const std::string below = gbit_as_sold(range.below * times, cluster);
    if (range.from <= plan::kSlowestLink) {
      ranges.push_back(to_the_end ? "always" : below);
    } else {
      ranges.push_back(to_the_end ? "over " + from : fmt::format("{} to {}", from, below));
    }
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

std::string pays_below_text(std::span<const plan::Rates> pays, const plan::Cluster& cluster) {
  return pays_text(pays.first(std::min<std::size_t>(pays.size(), 1)), cluster.rails.links_per_node,
                   cluster);
}

}  // namespace zeropp::plan_app
