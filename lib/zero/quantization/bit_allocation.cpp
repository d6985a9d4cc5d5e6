#include "lib/zero/quantization/bit_allocation.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace zeropp::zero {

namespace {

using Options = std::vector<BitOption>;
using Choice = std::vector<std::size_t>;

/// Indices of the options on the lower convex hull, from the cheapest on: each saves error at a
/// lower price a byte than the next.
std::vector<std::size_t> hull_of(const Options& options) {
  std::vector<std::size_t> order(options.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(options[a].bytes, options[a].error) <
           std::pair(options[b].bytes, options[b].error);
  });
  const auto saving = [&](std::size_t from, std::size_t to) {
    return (options[from].error - options[to].error) /
           static_cast<double>(options[to].bytes - options[from].bytes);
  };
  std::vector<std::size_t> hull;
  for (const std::size_t next : order) {
    if (!hull.empty() && options[next].error >= options[hull.back()].error) continue;
    while (hull.size() > 1 &&
           saving(hull[hull.size() - 2], hull.back()) <= saving(hull.back(), next)) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

std::uint64_t bytes_of(const std::vector<Options>& units, const Choice& choice) {
  std::uint64_t bytes = 0;
  for (std::size_t u = 0; u < units.size(); ++u) bytes += units[u][choice[u]].bytes;
  return bytes;
}

double error_of(const std::vector<Options>& units, const Choice& choice) {
  double error = 0;
  for (std::size_t u = 0; u < units.size(); ++u) error += units[u][choice[u]].error;
  return error;
}

/// Climbs the hulls, always where a byte saves the most, until a step does not fit; then those of
/// other units that still do.
void climb(const std::vector<Options>& units, std::uint64_t budget, Choice& choice) {
  struct Step {
    double saving;
    std::size_t unit;
    std::size_t at;  ///< on the unit's hull, that it leads to
    bool operator<(const Step& other) const {
      return saving != other.saving ? saving < other.saving : unit > other.unit;
    }
  };
  std::vector<std::vector<std::size_t>> hulls;
  std::priority_queue<Step> steps;
  const auto offer = [&](std::size_t u, std::size_t at) {
    if (at >= hulls[u].size()) return;
    const BitOption& from = units[u][hulls[u][at - 1]];
    const BitOption& to = units[u][hulls[u][at]];
    steps.push({(from.error - to.error) / static_cast<double>(to.bytes - from.bytes), u, at});
  };
  for (std::size_t u = 0; u < units.size(); ++u) {
    hulls.push_back(hull_of(units[u]));
    choice.push_back(hulls[u].front());
    offer(u, 1);
  }
  std::uint64_t left = budget - std::min(budget, bytes_of(units, choice));
  for (; !steps.empty();) {
    const Step step = steps.top();
    steps.pop();
    const std::size_t to = hulls[step.unit][step.at];
    const std::uint64_t more =
        units[step.unit][to].bytes - units[step.unit][choice[step.unit]].bytes;
    if (more > left) continue;  // and so no later step of this unit
    left -= more;
    choice[step.unit] = to;
    offer(step.unit, step.at + 1);
  }
}

/// Spends what is left on options beside the hulls, the largest saving first.
void fill(const std::vector<Options>& units, std::uint64_t budget, Choice& choice) {
  for (;;) {
    const std::uint64_t used = bytes_of(units, choice);
    double best = 0;
    std::pair<std::size_t, std::size_t> found;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const BitOption& now = units[u][choice[u]];
      for (std::size_t i = 0; i < units[u].size(); ++i) {
        const double saved = now.error - units[u][i].error;
        if (saved <= best || used - now.bytes + units[u][i].bytes > budget) continue;
        best = saved;
        found = {u, i};
      }
    }
    if (best == 0) return;
    choice[found.first] = found.second;
  }
}

}  // namespace

std::optional<std::vector<std::size_t>> allocate_bits(const std::vector<Options>& units,
                                                      std::uint64_t budget) {
  Choice choice;
  climb(units, budget, choice);
  if (bytes_of(units, choice) > budget) return std::nullopt;
  fill(units, budget, choice);
  std::size_t shared = units.empty() ? 0 : units.front().size();
  for (const Options& options : units) shared = std::min(shared, options.size());
  for (std::size_t i = 0; i < shared; ++i) {
    Choice uniform(units.size(), i);
    if (bytes_of(units, uniform) <= budget && error_of(units, uniform) < error_of(units, choice)) {
      fill(units, budget, uniform);
      choice = std::move(uniform);
    }
  }
  return choice;
}

}  // namespace zeropp::zero
