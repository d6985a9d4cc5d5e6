// Schedules between the passes over the layers: the optimizer, and whole weights that are made from
// shards.
#include <optional>

#include "lib/zero/plan/arena_planner.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

namespace {

void update_all(const ScheduleInput& input, std::vector<Op>& ops) {
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    Op op{OpKind::update, unit};
    if (input.preset.shard_parameters) op.stream = StreamId::update;
    ops.push_back(op);
  }
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

}  // namespace

Schedule make_update_schedule(const ScheduleInput& input) {
  std::vector<Op> ops;
  if (!input.slabs.enabled()) update_all(input, ops);
  return refresh_all(input, std::move(ops), false);
}

Schedule make_initial_schedule(const ScheduleInput& input) { return refresh_all(input, {}, true); }

}  // namespace zeropp::zero
