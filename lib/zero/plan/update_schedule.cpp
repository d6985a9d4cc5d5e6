// Schedules between the passes over the layers: the optimizer, and whole weights that are made from
// shards.
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "lib/zero/plan/arena_planner.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

namespace {

/// Workspaces of refreshes that lie side by side: one refresh is encoded while the one before it is
/// sent and the one before that decoded.
constexpr std::size_t kInFlight = 3;

/// Updates, unless they are part of backward or there are none (`updated`), each with the refresh
/// of the unit's whole weights behind it, where they are made from shards: at stages 1 and 2, and
/// of units that persist at stage 3. `initial`: before the first step.
Schedule update_and_refresh(const ScheduleInput& input, bool updated, bool initial) {
  ArenaPlanner arena;
  std::vector<Op> ops;
  std::deque<std::size_t> in_flight;  // refreshes whose workspaces are not released
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    Op update{OpKind::update, unit};
    Op refresh{OpKind::refresh, unit};
    const bool refreshes = is_refreshed(input.preset, input.units[unit]);
    if (input.preset.shard_parameters) update.stream = StreamId::update;
    refresh.stream = StreamId::gather;
    refresh.bytes = input.unit_memory[unit].refresh_workspace;
    refresh.initial = initial;
    if (refreshes) {
      Op& first = updated && input.updates_encode ? update : refresh;
      first.workspace = arena.allocate(refresh.bytes, first.waits_on);
      refresh.workspace = first.workspace;
    }
    if (updated) {
      refresh.waits_on.push_back(ops.size());
      ops.push_back(std::move(update));
    }
    if (!refreshes) continue;
    in_flight.push_back(ops.size());
    ops.push_back(std::move(refresh));
    if (in_flight.size() < kInFlight) continue;
    arena.release(ops[in_flight.front()].workspace, {in_flight.front()});
    in_flight.pop_front();
  }
  return {std::move(ops), arena.peak()};
}

}  // namespace

Schedule make_update_schedule(const ScheduleInput& input) {
  return update_and_refresh(input, !input.slabs.enabled(), false);
}

Schedule make_initial_schedule(const ScheduleInput& input) {
  return update_and_refresh(input, false, true);
}

}  // namespace zeropp::zero
