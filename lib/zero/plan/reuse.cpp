#include "lib/zero/plan/reuse.hpp"

#include <optional>

namespace zeropp::zero {

namespace {

struct UnitUse {
  std::size_t use;
  std::size_t at;
};

}  // namespace

std::vector<Use> uses_of_step(std::size_t layers, std::size_t micro_steps) {
  std::vector<Use> uses;
  for (std::size_t m = 0; m < micro_steps; ++m) {
    for (std::size_t layer = 0; layer < layers; ++layer) uses.push_back({layer, m, false});
    for (std::size_t layer = layers; layer-- > 0;) uses.push_back({layer, m, true});
  }
  return uses;
}

std::vector<std::vector<Reuse>> plan_reuse(const ScheduleInput& input,
                                           const std::vector<Use>& uses) {
  const auto units_of = [&](std::size_t use) -> const std::vector<std::size_t>& {
    return input.layers[uses[use].layer].units;
  };
  const auto elements = [&](std::size_t unit) {
    return input.units[unit].persistent ? 0 : input.units[unit].padded;
  };
  std::vector<std::vector<Reuse>> plan;
  std::vector<std::size_t> before{0};  // elements of all uses before
  for (std::size_t use = 0; use < uses.size(); ++use) {
    plan.emplace_back(units_of(use).size());
    std::size_t total = before.back();
    for (const std::size_t unit : units_of(use)) total += elements(unit);
    before.push_back(total);
  }
  // Next uses are found from the last one on.
  std::vector<std::vector<std::optional<UnitUse>>> next(uses.size());
  std::vector<std::optional<UnitUse>> latest(input.units.size());
  for (std::size_t use = uses.size(); use-- > 0;) {
    for (const std::size_t unit : units_of(use)) next[use].push_back(latest[unit]);
    for (std::size_t at = 0; at < units_of(use).size(); ++at) latest[units_of(use)[at]] = {use, at};
  }
  std::size_t kept = 0;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const auto& units = units_of(use);
    for (std::size_t at = 0; at < units.size(); ++at) {
      if (plan[use][at].is_there) kept -= elements(units[at]);
    }
    for (std::size_t at = 0; at < units.size(); ++at) {
      const std::optional<UnitUse>& to = next[use][at];
      const std::size_t size = elements(units[at]);
      if (!to || size == 0 || before[to->use] - before[use + 1] >= input.reuse_elements ||
          kept + size > input.max_live_elements) {
        continue;
      }
      plan[use][at].stays = true;
      plan[to->use][to->at].is_there = true;
      kept += size;
    }
  }
  return plan;
}

}  // namespace zeropp::zero
