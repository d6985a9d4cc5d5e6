// Schedules between the passes over the layers: the optimizer, and whole weights that are made from
// shards.
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "lib/zero/plan/arena_planner.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

namespace {

Op update_of(const ScheduleInput& input, std::size_t unit) {
  Op op{OpKind::update, unit};
  if (input.preset.shard_parameters) op.stream = StreamId::update;
  return op;
}

/// Refreshes whole weights from the shards that were updated, or initialised: at stages 1 and 2,
/// and of units that persist at stage 3. `ops`: the updates, by unit, or nothing. `initial`: before
/// the first step. The workspaces of two refreshes lie side by side: one is encoded while the one
/// before it is sent or decoded.
Schedule refresh_all(const ScheduleInput& input, std::vector<Op> ops, bool initial) {
  ArenaPlanner arena;
  const bool updated = !ops.empty();
  std::optional<std::size_t> before;
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    if (!is_refreshed(input.preset, input.units[unit])) continue;
    Op op{OpKind::refresh, unit};
    op.stream = StreamId::gather;
    op.bytes = input.unit_memory[unit].refresh_workspace;
    op.initial = initial;
    if (updated) op.waits_on = {unit};
    op.workspace = arena.allocate(op.bytes, op.waits_on);
    if (before) arena.release(ops[*before].workspace, {*before});
    before = ops.size();
    ops.push_back(std::move(op));
  }
  return {std::move(ops), arena.peak()};
}

/// Updates that may write what is sent, each with its unit's refresh behind it, where there is one:
/// both have the workspace. One is written while the one before it is sent and the one before that
/// decoded.
Schedule update_and_refresh_all(const ScheduleInput& input) {
  constexpr std::size_t side_by_side = 3;
  ArenaPlanner arena;
  std::vector<Op> ops;
  std::deque<std::size_t> refreshes;  // whose workspaces are not released
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    Op update = update_of(input, unit);
    if (!is_refreshed(input.preset, input.units[unit])) {
      ops.push_back(std::move(update));
      continue;
    }
    const std::size_t bytes = input.unit_memory[unit].refresh_workspace;
    update.workspace = arena.allocate(bytes, update.waits_on);
    Op refresh{OpKind::refresh, unit};
    refresh.stream = StreamId::gather;
    refresh.bytes = bytes;
    refresh.workspace = update.workspace;
    refresh.waits_on = {ops.size()};
    ops.push_back(std::move(update));
    refreshes.push_back(ops.size());
    ops.push_back(std::move(refresh));
    if (refreshes.size() < side_by_side) continue;
    arena.release(ops[refreshes.front()].workspace, {refreshes.front()});
    refreshes.pop_front();
  }
  return {std::move(ops), arena.peak()};
}

}  // namespace

Schedule make_update_schedule(const ScheduleInput& input) {
  if (input.updates_encode) return update_and_refresh_all(input);
  std::vector<Op> ops;
  for (std::size_t unit = 0; !input.slabs.enabled() && unit < input.units.size(); ++unit)
    ops.push_back(update_of(input, unit));
  return refresh_all(input, std::move(ops), false);
}

Schedule make_initial_schedule(const ScheduleInput& input) { return refresh_all(input, {}, true); }

}  // namespace zeropp::zero
