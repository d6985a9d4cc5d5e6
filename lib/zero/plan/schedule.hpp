// The order of work of one optimizer step, as data. The functions that make a schedule are pure:
// they know no MPI, no device and no memory. Three readers: the engine executes it, volume.hpp
// folds it into bytes, and a planner can cost it. An operation names the operations it waits for;
// operations on one stream begin in order and, but for collectives, end in order too; a schedule
// begins after all work before it, except updates and refreshes, for which gathers, reductions and
// layers wait unit by unit. Memory that lives within a step lies in one arena, whose offsets are
// assigned here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/codec/exact.hpp"
#include "lib/zero/plan/gradient_slabs.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

enum class OpKind : std::uint8_t {
  gather,            ///< start the all-gather of a unit's weights over all ranks
  gather_secondary,  ///< start the all-gather of a unit's weights inside the hpZ group
  keep_secondary,    ///< cut the own secondary shard from a gathered unit (hpZ)
  agree,     ///< count how weights differ from their copies, and agree with all ranks on the sizes
             ///< of the exchanges or refreshes that follow (exact differences)
  exchange,  ///< start the all-gather along the rail, of weight differences or of whole weights,
             ///< that updates the own secondary shard
  forward,   ///< a layer
  backward,  ///< a layer
  clear_gradients,  ///< begin a unit's gradients before their first use in backward: zeros where
                    ///< no tensor is; that use writes the rest
  reduce,           ///< start the reduce-scatter of a bucket; it ends with the sum added to the
                    ///< gradient shards; without a result in the arena it reduces into the shard
  end_reduce,       ///< completion of a bucket's reduction: transports that the host drives block
                    ///< here, so that reductions end in the order in which they began
  gather_sum,       ///< all-gather a bucket's sum in fp32 (stage 0)
  reduce_over_replicas,  ///< reduce-scatter a bucket's gradient shard over the shard groups
  gather_over_replicas,  ///< all-gather what that summed into the gradient shards
  update,                ///< optimizer step of a unit's shard
  refresh,               ///< start the all-gather of a unit's updated weights (stages 1 and 2, and
                         ///< units that persist at stage 3)
};
inline constexpr std::size_t kOpKinds = static_cast<std::size_t>(OpKind::refresh) + 1;

/// Values that operations of a kind send: they are collectives, or send nothing.
enum class Sends : std::uint8_t { nothing, weights, gradients };
constexpr Sends sends(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
    case OpKind::gather_secondary:
    case OpKind::exchange:
    case OpKind::refresh:
      return Sends::weights;
    case OpKind::reduce:
    case OpKind::gather_sum:
    case OpKind::reduce_over_replicas:
    case OpKind::gather_over_replicas:
      return Sends::gradients;
    case OpKind::keep_secondary:
    case OpKind::agree:
    case OpKind::forward:
    case OpKind::backward:
    case OpKind::clear_gradients:
    case OpKind::end_reduce:
    case OpKind::update:
      break;
  }
  return Sends::nothing;
}

/// Phase of a run that an operation belongs to. `update`: after the gradients; `initial`: before
/// the first step, for weights that no rank holds whole. The trace counts collectives by phase.
enum class Phase : std::uint8_t { forward, backward, evaluation, update, initial };

/// Collectives start on `gather` and `reduce` and continue with their later hops and decoding on
/// `gather_end` and `reduce_end`: the next one starts while this one is on its way.
enum class StreamId : std::uint8_t {
  compute,
  gather,
  gather_end,
  reduce,
  reduce_end,
  secondary,  ///< what makes secondary shards
  update  ///< the optimizer at stage 3, beside gathers of units that are done, or beside backward
};
inline constexpr std::size_t kStreams = 7;

/// The stream on which a collective of stream `id` that is started first and finished later ends:
/// what waits for it waits there.
constexpr StreamId ends_on(StreamId id) {
  switch (id) {
    case StreamId::gather:
      return StreamId::gather_end;
    case StreamId::reduce:
      return StreamId::reduce_end;
    default:
      return id;
  }
}

/// Names that profilers and timelines show.
const char* name_of(OpKind kind);
const char* name_of(Phase phase);
const char* name_of(StreamId id);

inline constexpr std::size_t kNoMemory = static_cast<std::size_t>(-1);

struct Op {
  OpKind kind;
  std::size_t index;  ///< unit, layer or bucket
  std::size_t micro_step = 0;
  StreamId stream = StreamId::compute;
  Phase phase = Phase::forward;
  bool first_sum = false;  ///< reduce: the first of its bucket in the step, which replaces
  std::size_t bytes = 0;   ///< memory that the operation takes in the arena, workspace included
  /// Arena offset of what it makes (weights, gradients, sum). A reduction has none where its sum
  /// goes straight into the gradient shard: reduces_into_shard() in schedule.cpp decides that.
  std::size_t result = kNoMemory;
  /// Arena offset of what it borrows until it is waited for; update: of its unit's refresh, which
  /// it may write to (ScheduleInput::updates_encode).
  std::size_t workspace = kNoMemory;
  std::vector<std::size_t> waits_on{};  ///< earlier operations, by index in the schedule
};

struct Schedule {
  std::vector<Op> ops;
  std::size_t arena_bytes = 0;  ///< peak
};

/// Bytes of arena memory, by unit and bucket: from the plans of the collectives.
struct UnitMemory {
  std::size_t weights = 0;    ///< gathered, compute dtype
  std::size_t gradients = 0;  ///< whole, in the dtype that backward writes
  std::size_t gather_workspace = 0;
  std::size_t secondary_workspace = 0;
  std::size_t exchange_workspace = 0;
  std::size_t refresh_workspace = 0;
  std::size_t count_workspace = 0;  ///< to count exact differences
};
struct BucketMemory {
  std::size_t sum = 0;        ///< fp32
  std::size_t workspace = 0;  ///< packing and wire images
  std::size_t gather_sum_workspace = 0;
  std::size_t replica_image =
      0;  ///< what lies between reduce_over_replicas and gather_over_replicas
  std::size_t replica_reduce_workspace = 0;
  std::size_t replica_gather_workspace = 0;
};

/// A ZeRO stage as a preset: the state that is sharded.
struct StagePreset {
  bool shard_optimizer;
  bool shard_gradients;
  bool shard_parameters;
};
/// Preset of stage 0..3.
StagePreset stage_preset(int stage);
/// Whether a unit's whole weights, which every rank keeps, are gathered after each update.
bool is_refreshed(const StagePreset& preset, const UnitPartition& unit);

struct ScheduleInput {
  std::vector<UnitPartition> units;
  std::vector<UnitMemory> unit_memory;
  std::vector<Layer> layers;
  std::vector<Bucket> buckets;
  std::vector<BucketMemory> bucket_memory;
  GradientSlabs slabs;  ///< enabled: each unit is updated during backward, from its slab
  StagePreset preset{};
  bool hpz = false;
  bool exchanges = false;  ///< hpZ's shards are brought up to date along the rails
  /// Differences are exact: ranks agree on the sizes of what brings copies up to date.
  bool agrees = false;
  /// Updates may write what their units' refreshes send, into the workspaces of these.
  bool updates_encode = false;
  bool over_replicas = false;  ///< several shard groups: their gradients are summed once a step
  std::size_t micro_steps = 1;
  /// Elements of weights that may be prefetched; where it is not 0, those of the next two uses are,
  /// however large, and more within the limit.
  std::size_t prefetch_elements = 0;
  /// Gathered weights that a prefetch may not exceed, with its own; what a layer needs now is
  /// always gathered.
  std::size_t max_live_elements = std::numeric_limits<std::size_t>::max();
  /// A gathered unit is kept until its next use where the uses between have fewer elements than
  /// this (0: none is), and kept units have no more than max_live_elements together.
  std::size_t reuse_elements = 0;
  bool overlap = true;  ///< false: every collective completes before the next operation
};

/// The operation `agree` of all units, without its place in an arena: memory to count two units at
/// a time, and after it codec::Escapes of each unit.
Op agreement(const ScheduleInput& input, Phase phase);

/// Schedule of forward, backward and reduction of all micro-steps. `secondary_valid`: the hpZ
/// shards hold the current weights already.
Schedule make_step_schedule(const ScheduleInput& input, bool secondary_valid);
/// Schedule of forward only, of one batch.
Schedule make_evaluation_schedule(const ScheduleInput& input, bool secondary_valid);
/// Schedule of the optimizer step, unless it is part of backward, and of what follows it; not run
/// when the step is skipped.
Schedule make_update_schedule(const ScheduleInput& input);
/// Schedule before the first step: makes whole weights at stages 1 and 2.
Schedule make_initial_schedule(const ScheduleInput& input);

}  // namespace zeropp::zero
