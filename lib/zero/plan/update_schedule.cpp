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

/// Workspaces of refreshes in an arena, of which up to `most` lie side by side.
class Workspaces {
 public:
  explicit Workspaces(std::size_t most) : most_(most) {}

  /// Offset of the next one: as ArenaPlanner::allocate().
  std::size_t allocate(std::size_t bytes, std::vector<std::size_t>& waits_on) {
    return arena_.allocate(bytes, waits_on);
  }
  /// Notes that operation `refresh` is the last that uses the workspace at `offset`, after the
  /// refreshes noted before.
  void add(std::size_t refresh, std::size_t offset) {
    used_.emplace_back(refresh, offset);
    if (used_.size() < most_) return;
    const auto [first, at] = used_.front();
    arena_.release(at, {first});
    used_.pop_front();
  }
  [[nodiscard]] std::size_t peak() const { return arena_.peak(); }

 private:
  std::size_t most_;
  ArenaPlanner arena_;
  std::deque<std::pair<std::size_t, std::size_t>> used_;  ///< refresh, offset: not released
};

Op update_of(const ScheduleInput& input, std::size_t unit) {
  Op op{OpKind::update, unit};
  op.phase = Phase::update;
  if (input.preset.shard_parameters) op.stream = StreamId::update;
  return op;
}

Op refresh_of(const ScheduleInput& input, std::size_t unit, Phase phase) {
  Op op{OpKind::refresh, unit};
  op.phase = phase;
  op.stream = StreamId::gather;
  op.bytes = input.unit_memory[unit].refresh_workspace;
  return op;
}

/// Refreshes whole weights from the shards that were updated, or initialised: at stages 1 and 2,
/// and of units that persist at stage 3. `ops`: the updates, by unit, or nothing. The workspaces of
/// two refreshes lie side by side: one is encoded while the one before it is sent or decoded.
Schedule refresh_all(const ScheduleInput& input, std::vector<Op> ops, Phase phase) {
  Workspaces workspaces(2);
  const bool updated = !ops.empty();
  if (input.agrees && !input.preset.shard_parameters) {
    Op op = agreement(input, phase);
    op.workspace = workspaces.allocate(op.bytes, op.waits_on);
    workspaces.add(ops.size(), op.workspace);
    ops.push_back(std::move(op));
  }
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    if (!is_refreshed(input.preset, input.units[unit])) continue;
    Op op = refresh_of(input, unit, phase);
    if (updated) op.waits_on = {unit};
    op.workspace = workspaces.allocate(op.bytes, op.waits_on);
    workspaces.add(ops.size(), op.workspace);
    ops.push_back(std::move(op));
  }
  return {std::move(ops), workspaces.peak()};
}

/// Updates that may write the image to send, each followed by its unit's refresh, where there is
/// one: both use the same workspace. One workspace is written while the one before it is sent and
/// the one before that is decoded.
Schedule update_and_refresh_all(const ScheduleInput& input) {
  Workspaces workspaces(3);
  std::vector<Op> ops;
  for (std::size_t unit = 0; unit < input.units.size(); ++unit) {
    Op update = update_of(input, unit);
    if (!is_refreshed(input.preset, input.units[unit])) {
      ops.push_back(std::move(update));
      continue;
    }
    Op refresh = refresh_of(input, unit, Phase::update);
    refresh.workspace = update.workspace = workspaces.allocate(refresh.bytes, update.waits_on);
    refresh.waits_on = {ops.size()};
    ops.push_back(std::move(update));
    workspaces.add(ops.size(), refresh.workspace);
    ops.push_back(std::move(refresh));
  }
  return {std::move(ops), workspaces.peak()};
}

}  // namespace

Schedule make_update_schedule(const ScheduleInput& input) {
  if (input.updates_encode) return update_and_refresh_all(input);
  std::vector<Op> ops;
  for (std::size_t unit = 0; !input.slabs.enabled() && unit < input.units.size(); ++unit)
    ops.push_back(update_of(input, unit));
  return refresh_all(input, std::move(ops), Phase::update);
}

Schedule make_initial_schedule(const ScheduleInput& input) {
  return refresh_all(input, {}, Phase::initial);
}

}  // namespace zeropp::zero
