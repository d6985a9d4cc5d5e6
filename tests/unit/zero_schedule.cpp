// ctest: name=zero_schedule labels=sanitize
// The schedule as data: what it must contain for each stage, and that dependencies cover every
// reuse of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "lib/plan/step_time.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {
namespace {

ScheduleInput make_input(int stage, bool hpz, std::size_t micro_steps, std::size_t prefetch,
                         bool overlap, bool tied, std::size_t bucket_size) {
  ScheduleInput in;
  const std::vector<std::size_t> shards{400, 96, 96, 96, 40};
  for (const std::size_t shard : shards)
    in.units.push_back({shard * 4, shard * 4, shard, shard * 4, hpz ? shard * 2 : 0});
  for (const auto& unit : in.units)
    in.unit_memory.push_back({unit.padded * 2, unit.padded * 4, 1000, 500, 600, 700});
  in.layers = {{"embedding", {0}},
               {"h.0", {1}},
               {"h.1", {2}},
               {"h.2", {3}},
               {"head", tied ? std::vector<std::size_t>{4, 0} : std::vector<std::size_t>{4}}};
  in.buckets =
      make_buckets(in.units, gradient_order(in.layers, in.units.size()), 4, bucket_size, 8);
  for (const Bucket& bucket : in.buckets)
    in.bucket_memory.push_back({bucket.count() * 4, 900, 300});
  in.preset = stage_preset(stage);
  in.hpz = hpz;
  in.micro_steps = micro_steps;
  in.prefetch_elements = prefetch;
  in.overlap = overlap;
  return in;
}

std::size_t count(const Schedule& schedule, OpKind kind) {
  return static_cast<std::size_t>(std::count_if(schedule.ops.begin(), schedule.ops.end(),
                                                [&](const Op& op) { return op.kind == kind; }));
}

/// earlier[i][j]: operation i begins after the end of j, by its waits and by the order on its
/// stream. A collective begins after the begin of the collective before it on its stream, and ends
/// after the end of that collective. `queued`: where streams wait for collectives, the ends of
/// collectives are enqueued with them, and other work on the stream of the ends comes after these
/// ends.
std::vector<std::vector<bool>> order_of(const Schedule& schedule, bool queued = false) {
  const std::size_t n = schedule.ops.size();
  std::vector<std::vector<bool>> earlier(n, std::vector<bool>(n, false));
  auto at_end = earlier;  // [i][j]: j has ended when i ends
  std::map<StreamId, std::size_t> last;
  const auto join = [&](std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t j = 0; j < n; ++j) into[j] = into[j] || from[j];
  };
  for (std::size_t i = 0; i < n; ++i) {
    const Op& op = schedule.ops[i];
    const auto before = last.find(op.stream);
    for (const std::size_t d : op.waits_on) join(earlier[i], at_end[d]);
    const bool collective = ends_on(op.stream) != op.stream;
    if (before != last.end()) join(earlier[i], (collective ? earlier : at_end)[before->second]);
    at_end[i] = earlier[i];
    at_end[i][i] = true;
    if (before != last.end()) join(at_end[i], at_end[before->second]);
    last[op.stream] = i;
    if (queued && collective) last[ends_on(op.stream)] = i;
  }
  return earlier;
}

TEST(Schedule, ContainsEveryLayerOnceAMicroStepAndPhase) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const std::size_t micro_steps : {1U, 3U}) {
      const ScheduleInput in = make_input(stage, false, micro_steps, 1 << 20, true, true, 1 << 20);
      const Schedule schedule = make_step_schedule(in, false);
      EXPECT_EQ(count(schedule, OpKind::forward), 5 * micro_steps);
      EXPECT_EQ(count(schedule, OpKind::backward), 5 * micro_steps);
      const std::size_t reductions = stage >= 2 ? micro_steps : 1;
      EXPECT_EQ(count(schedule, OpKind::reduce), in.buckets.size() * reductions);
      EXPECT_EQ(count(schedule, OpKind::end_reduce), in.buckets.size() * reductions);
      EXPECT_EQ(count(schedule, OpKind::gather_sum), stage == 0 ? in.buckets.size() : 0);
      // A tied head gathers the embedding again: six uses in forward and six in backward.
      EXPECT_EQ(count(schedule, OpKind::gather), stage == 3 ? 12 * micro_steps : 0);
      const Schedule update = make_update_schedule(in);
      EXPECT_EQ(count(update, OpKind::update), in.units.size());
      EXPECT_EQ(count(update, OpKind::refresh), stage == 1 || stage == 2 ? in.units.size() : 0);
    }
  }
}

/// By hand: a unit stays where the uses between have fewer elements than the distance. Units have
/// 1600, 384, 384, 384 and 160 elements.
TEST(Reuse, KeepsWhatIsUsedAgainSoon) {
  const auto gathers = [](std::size_t distance, std::size_t limit, std::size_t micro_steps,
                          bool tied) {
    ScheduleInput in = make_input(3, false, micro_steps, 0, true, tied, 1 << 20);
    in.reuse_elements = distance;
    in.max_live_elements = limit;
    return count(make_step_schedule(in, false), OpKind::gather);
  };
  constexpr std::size_t kAll = 1'000'000;
  EXPECT_EQ(gathers(0, kAll, 1, false), 10U);
  EXPECT_EQ(gathers(1, kAll, 1, false), 9U) << "the head's backward follows its forward";
  EXPECT_EQ(gathers(320, kAll, 1, false), 9U) << "320 elements of the head are in between";
  EXPECT_EQ(gathers(321, kAll, 1, false), 8U);
  EXPECT_EQ(gathers(kAll, kAll, 1, false), 5U);
  EXPECT_EQ(gathers(kAll, kAll, 3, false), 5U) << "over micro-steps too";
  EXPECT_EQ(gathers(kAll, 1599, 1, false), 6U) << "the embedding is too large to be kept";
  EXPECT_EQ(gathers(kAll, 0, 1, false), 10U);
  EXPECT_EQ(gathers(kAll, kAll, 1, true), 5U);
  EXPECT_EQ(gathers(1, kAll, 2, false), 17U) << "and a forward follows a backward";
}

TEST(Reuse, UnitsThatPersistAreGatheredAfterUpdatesOnly) {
  ScheduleInput in = make_input(3, false, 2, 1 << 20, true, true, 1 << 20);
  mark_persistent(in.units, 400, 900);  // two of the blocks: with the third they are too many
  std::vector<bool> persistent;
  for (const UnitPartition& unit : in.units) persistent.push_back(unit.persistent);
  EXPECT_EQ(persistent, (std::vector<bool>{false, true, true, false, false}));
  EXPECT_EQ(count(make_step_schedule(in, false), OpKind::gather), 2U * (12 - 4));
  EXPECT_EQ(count(make_update_schedule(in), OpKind::refresh), 2U);
  EXPECT_EQ(count(make_initial_schedule(in), OpKind::refresh), 2U);
}

/// Several shard groups sum once per step: after the last micro-step each bucket is there.
TEST(Schedule, SumsOverShardGroupsOnceAStep) {
  for (const std::size_t micro_steps : {1U, 3U}) {
    ScheduleInput in = make_input(3, false, micro_steps, 1 << 20, true, true, 600);
    in.over_replicas = true;
    for (BucketMemory& memory : in.bucket_memory) memory.replica_image = 256;
    const Schedule schedule = make_step_schedule(in, false);
    EXPECT_EQ(count(schedule, OpKind::reduce_over_replicas), in.buckets.size());
    EXPECT_EQ(count(schedule, OpKind::gather_over_replicas), in.buckets.size());
    const auto before = order_of(schedule);
    std::map<std::size_t, std::size_t> summed;  // bucket -> what must be done before
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
      const Op& op = schedule.ops[i];
      const bool over_replicas =
          op.kind == OpKind::reduce_over_replicas || op.kind == OpKind::gather_over_replicas;
      if (over_replicas) {
        EXPECT_EQ(op.micro_step + 1, micro_steps);
        EXPECT_TRUE(before[i][summed.at(op.index)]);
      }
      if (over_replicas || op.kind == OpKind::reduce) summed[op.index] = i;
    }
    EXPECT_EQ(count(make_evaluation_schedule(in, false), OpKind::reduce_over_replicas), 0U);
  }
}

TEST(Schedule, HpzGathersGloballyOnceAUnitAfterAStep) {
  const ScheduleInput in = make_input(3, true, 2, 1 << 20, true, true, 1 << 20);
  const Schedule stale = make_step_schedule(in, false);
  EXPECT_EQ(count(stale, OpKind::gather), 5U);
  EXPECT_EQ(count(stale, OpKind::keep_secondary), 5U);
  EXPECT_EQ(count(stale, OpKind::gather_secondary), 2 * 12 - 5U);
  for (const Op& op : stale.ops) {
    if (op.kind == OpKind::gather) {
      EXPECT_EQ(op.phase, Phase::forward);
      EXPECT_EQ(op.micro_step, 0U);
    }
  }
  const Schedule valid = make_step_schedule(in, true);
  EXPECT_EQ(count(valid, OpKind::gather), 0U);
  EXPECT_EQ(count(valid, OpKind::keep_secondary), 0U);
  EXPECT_EQ(count(make_evaluation_schedule(in, false), OpKind::keep_secondary), 5U);
  EXPECT_EQ(count(make_evaluation_schedule(in, true), OpKind::gather_secondary), 6U);
}

TEST(Schedule, DifferencesBringEachUnitsCopyUpToDateOnceBeforeItIsGathered) {
  for (const bool overlap : {false, true}) {
    ScheduleInput in = make_input(3, true, 2, 1 << 20, overlap, true, 1 << 20);
    in.exchanges = true;
    const Schedule behind = make_step_schedule(in, false);
    EXPECT_EQ(count(behind, OpKind::exchange), 5U);
    EXPECT_EQ(count(behind, OpKind::gather_secondary), 2 * 12U);
    EXPECT_EQ(count(behind, OpKind::gather) + count(behind, OpKind::keep_secondary), 0U);
    std::map<std::size_t, std::size_t> exchanged;  // by unit
    for (std::size_t i = 0; i < behind.ops.size(); ++i) {
      const Op& op = behind.ops[i];
      if (op.kind == OpKind::exchange) exchanged[op.index] = i;
      if (op.kind != OpKind::gather_secondary) continue;
      ASSERT_TRUE(exchanged.contains(op.index));
      EXPECT_THAT(op.waits_on, testing::Contains(exchanged[op.index]));
    }
    // The exchange of the next use crosses nodes while weights of this use travel inside the node.
    EXPECT_EQ(behind.ops[1].kind, overlap ? OpKind::exchange : OpKind::gather_secondary);
    const Schedule current = make_step_schedule(in, true);
    EXPECT_EQ(count(current, OpKind::exchange), 0U);
    EXPECT_EQ(count(make_evaluation_schedule(in, false), OpKind::exchange), 5U);
  }
}

TEST(Schedule, WithoutPrefetchNothingIsGatheredAhead) {
  const ScheduleInput in = make_input(3, false, 1, 0, true, false, 1 << 20);
  const Schedule schedule = make_step_schedule(in, false);
  std::size_t live = 0;
  for (const Op& op : schedule.ops) {
    if (op.kind == OpKind::gather) {
      EXPECT_EQ(++live, 1U);
    }
    if (op.kind == OpKind::forward || op.kind == OpKind::backward) live = 0;
  }
}

TEST(Schedule, PrefetchStaysWithinItsLimit) {
  const std::size_t limit = 2 * 96 * 4;
  const ScheduleInput in = make_input(3, false, 2, limit, true, true, 1 << 20);
  const Schedule schedule = make_step_schedule(in, false);
  bool ahead = false;
  const std::size_t largest_two = (40 + 400 + 96) * 4;
  std::size_t held = 0;
  std::map<std::size_t, std::size_t> gathered;
  for (const Op& op : schedule.ops) {
    if (op.kind == OpKind::gather) {
      held += in.units[op.index].padded;
      gathered[op.index] = in.units[op.index].padded;
    }
    if (op.kind == OpKind::forward || op.kind == OpKind::backward) {
      std::size_t current = 0;
      for (const std::size_t unit : in.layers[op.index].units) current += gathered[unit];
      // The next two uses are gathered however large they are.
      EXPECT_LE(held - current, std::max(limit, largest_two));
      if (held > current) ahead = true;
      held -= current;
    }
  }
  EXPECT_TRUE(ahead);
}

/// Weights that are gathered and not yet used, at their most: a use ends after its gathers, so that
/// what is gathered when a use begins is live.
std::size_t most_live(const ScheduleInput& in, const Schedule& schedule) {
  std::size_t live = 0;
  std::size_t most = 0;
  for (const Op& op : schedule.ops) {
    if (op.kind == OpKind::gather) live += in.units[op.index].padded;
    if (op.kind != OpKind::forward && op.kind != OpKind::backward) continue;
    most = std::max(most, live);
    for (const std::size_t unit : in.layers[op.index].units) live -= in.units[unit].padded;
  }
  return most;
}

TEST(Schedule, LiveWeightsStayWithinTheirLimit) {
  const std::size_t head = (40 + 400) * 4;  // the largest layer, which is always gathered
  ScheduleInput in = make_input(3, false, 2, 1 << 20, true, true, 1 << 20);
  const Schedule free = make_step_schedule(in, false);
  const std::size_t memory = make_evaluation_schedule(in, false).arena_bytes;
  ASSERT_GT(most_live(in, free), head + 2 * 96 * 4);
  for (const std::size_t limit : {std::size_t{0}, head, head + 96 * 4, head + 2 * 96 * 4}) {
    in.max_live_elements = limit;
    const Schedule schedule = make_step_schedule(in, false);
    EXPECT_EQ(most_live(in, schedule), std::max(limit, head));
    EXPECT_EQ(count(schedule, OpKind::gather), count(free, OpKind::gather));
    EXPECT_LE(make_evaluation_schedule(in, false).arena_bytes, memory);
  }
  in.max_live_elements = 0;
  EXPECT_LT(make_evaluation_schedule(in, false).arena_bytes, memory);
}

/// An operation reads only values that were written before, whatever the streams do: weights by
/// their gather, gradients by every backward that adds to them, sums by their reduction.
TEST(Schedule, OrdersEveryReadAfterItsWrites) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 80; ++trial) {
    const auto pick = [&](std::size_t n) { return random() % n; };
    ScheduleInput in = make_input(trial % 4, pick(2) == 1, 1 + pick(3), pick(3) * 500, pick(2) == 1,
                                  pick(2) == 1, 200 + pick(6000));
    in.exchanges = in.hpz && pick(2) == 1;
    const Schedule schedule = make_step_schedule(in, pick(2) == 1);
    const auto before = order_of(schedule);
    std::map<std::size_t, std::size_t> gathered;           // unit -> its latest gather
    std::map<std::size_t, std::size_t> exchanged;          // unit -> what wrote its secondary shard
    std::map<std::size_t, std::vector<std::size_t>> adds;  // unit -> what adds to its gradient
    std::map<std::size_t, std::size_t> reduced;            // bucket -> its latest reduction
    const auto expect_after = [&](std::size_t op, std::size_t write) {
      EXPECT_TRUE(before[op][write])
          << "operation " << op << " is not ordered after " << write << ", stage " << trial % 4;
    };
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
      const Op& op = schedule.ops[i];
      switch (op.kind) {
        case OpKind::exchange:
          exchanged[op.index] = i;
          break;
        case OpKind::gather:
        case OpKind::gather_secondary:
          if (exchanged.contains(op.index)) expect_after(i, exchanged.at(op.index));
          gathered[op.index] = i;
          break;
        case OpKind::clear_gradients:
          adds[op.index] = {i};
          break;
        case OpKind::forward:
        case OpKind::backward:
          for (const std::size_t unit : in.layers[op.index].units) {
            if (in.preset.shard_parameters && !in.units[unit].persistent) {
              expect_after(i, gathered.at(unit));
            }
            if (op.kind == OpKind::forward) continue;
            for (const std::size_t add : adds.at(unit)) expect_after(i, add);
            adds[unit].push_back(i);
          }
          break;
        case OpKind::reduce:
          for (const Segment& segment : in.buckets[op.index].segments) {
            for (const std::size_t add : adds.at(segment.unit)) expect_after(i, add);
          }
          reduced[op.index] = i;
          break;
        case OpKind::gather_sum:
          expect_after(i, reduced.at(op.index));
          break;
        default:
          break;
      }
    }
  }
}

/// A step's first sum of a bucket replaces what the gradient shards hold of the step before, later
/// ones are added; a first one that is a piece of one shard takes no memory.
TEST(Schedule, FirstSumsOfAStepReplace) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const std::size_t bucket_size : {600U, 1U << 20U}) {
      const ScheduleInput in = make_input(stage, false, 3, 0, true, false, bucket_size);
      std::vector<std::size_t> sums(in.buckets.size(), 0);
      std::size_t in_shard = 0;
      for (const Op& op : make_step_schedule(in, false).ops) {
        if (op.kind == OpKind::reduce) {
          const bool first = sums[op.index]++ == 0;
          EXPECT_EQ(op.first_sum, first) << "stage " << stage;
          const bool expected = stage > 0 && first;
          if (in.buckets[op.index].segments.size() == 1) {
            EXPECT_EQ(op.result == kNoMemory, expected) << "stage " << stage;
          } else {
            EXPECT_NE(op.result, kNoMemory) << "stage " << stage;
          }
          in_shard += op.result == kNoMemory ? 1 : 0;
        }
      }
      EXPECT_EQ(in_shard > 0, stage > 0 && bucket_size == 600U);
    }
  }
}

/// Follows the operations like a host that waits: it ends a collective when an operation waits for
/// it, and not before. `pending`: reductions that have begun and not ended when operation i begins.
template <class Check>
void as_the_host_waits(const Schedule& schedule, const Check& check) {
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    for (const std::size_t before : op.waits_on) std::erase(pending, before);
    check(i, pending);
    if (op.kind == OpKind::reduce) pending.push_back(i);
  }
}

/// Reductions end in order, at most two at a time, no bucket's while its last one has not ended,
/// and gradients stay until all of theirs have.
TEST(Schedule, AHostThatWaitsEndsReductionsInTime) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 400; ++trial) {
    const auto pick = [&](std::size_t n) { return random() % n; };
    ScheduleInput in = make_input(static_cast<int>(pick(4)), pick(2) == 1, 1 + pick(4),
                                  pick(3) * 500, pick(4) > 0, pick(2) == 1, 100 + pick(6000));
    in.over_replicas = in.preset.shard_parameters && pick(2) == 1;
    in.exchanges = in.hpz && pick(2) == 1;
    in.reuse_elements = pick(3) * 700;
    in.max_live_elements = 500 + pick(4000);
    if (in.preset.shard_parameters) mark_persistent(in.units, pick(2) * 400, pick(1000));
    for (std::size_t b = 0; b < in.buckets.size(); ++b) {
      in.bucket_memory[b].workspace =
          pick(3) == 0 ? 256 : in.buckets[b].count() * 4 * (1 + pick(8));
      in.bucket_memory[b].replica_image = 700;
    }
    for (UnitMemory& memory : in.unit_memory) memory.gradients /= 1 + pick(2);
    const Schedule schedule = make_step_schedule(in, pick(2) == 1);
    as_the_host_waits(schedule, [&](std::size_t i, const std::vector<std::size_t>& pending) {
      const Op& op = schedule.ops[i];
      ASSERT_LE(pending.size() + (op.kind == OpKind::reduce ? 1 : 0), 2U);
      for (const std::size_t begun : pending) {
        const std::size_t bucket = schedule.ops[begun].index;
        ASSERT_FALSE(op.kind == OpKind::reduce && op.index == bucket) << "bucket " << bucket;
        if (op.kind != OpKind::clear_gradients) continue;
        for (const Segment& segment : in.buckets[bucket].segments) {
          ASSERT_NE(segment.unit, op.index) << "its gradients begin anew";
        }
      }
      if (op.kind == OpKind::end_reduce) {
        for (const std::size_t begun : pending) ASSERT_GT(begun, op.waits_on.front());
      }
    });
    std::size_t left = 0;
    as_the_host_waits(schedule, [&](std::size_t, const auto& pending) { left = pending.size(); });
    EXPECT_EQ(left, 0U);
  }
}

/// While one is on its way, the next begins, whatever is done with the sums, and although their
/// ends share a stream; the one after waits.
TEST(Schedule, TwoReductionsAreUnderWayTogether) {
  for (const std::size_t bucket_size : {200U, 600U}) {
    const ScheduleInput in = make_input(3, false, 2, 1 << 20, true, true, bucket_size);
    const Schedule schedule = make_step_schedule(in, false);
    const auto before = order_of(schedule, true);
    std::vector<std::size_t> reductions;
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
      if (schedule.ops[i].kind == OpKind::reduce) reductions.push_back(i);
    }
    for (std::size_t r = 1; r < reductions.size(); ++r) {
      const std::size_t op = reductions[r];
      EXPECT_TRUE(r == 1 || before[op][reductions[r - 2]]) << "reduction " << r;
      const std::size_t last = reductions[r - 1];
      if (schedule.ops[last].micro_step != schedule.ops[op].micro_step) continue;
      EXPECT_FALSE(before[op][last]) << "reduction " << r;
    }
  }
}

/// An update and the refresh of its unit have one workspace, and three lie side by side.
TEST(Schedule, UpdatesWriteWhereTheirRefreshesSend) {
  ScheduleInput in = make_input(3, false, 1, 1 << 20, true, true, 1 << 20);
  mark_persistent(in.units, 1'000'000, 1'000'000);
  in.updates_encode = true;
  const Schedule schedule = make_update_schedule(in);
  ASSERT_EQ(schedule.ops.size(), 2 * in.units.size());
  std::size_t largest = 0;
  for (const UnitMemory& memory : in.unit_memory)
    largest = std::max(largest, (memory.refresh_workspace + 255) / 256 * 256);
  EXPECT_LE(schedule.arena_bytes, 3 * largest);
  for (std::size_t u = 0; u < in.units.size(); ++u) {
    const Op& update = schedule.ops[2 * u];
    const Op& refresh = schedule.ops[2 * u + 1];
    EXPECT_EQ(update.kind, OpKind::update);
    EXPECT_EQ(refresh.kind, OpKind::refresh);
    EXPECT_EQ(update.workspace, refresh.workspace);
    EXPECT_EQ(refresh.waits_on, std::vector<std::size_t>{2 * u});
    EXPECT_EQ(update.waits_on.empty(), u < 3) << u;
    for (const std::size_t op : update.waits_on) EXPECT_EQ(op, 2 * (u - 3) + 1) << u;
  }
}

/// Every two operations that use the same bytes of the arena are ordered, whatever the streams do.
TEST(Schedule, OrdersEveryReuseOfMemory) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const auto pick = [&](std::size_t n) { return random() % n; };
    ScheduleInput in = make_input(static_cast<int>(pick(4)), pick(2) == 1, 1 + pick(3),
                                  pick(3) * 500, pick(2) == 1, pick(2) == 1, 200 + pick(6000));
    in.over_replicas = in.preset.shard_parameters && pick(2) == 1;
    in.reuse_elements = pick(3) * 700;
    in.max_live_elements = 500 + pick(4000);
    in.updates_encode = in.preset.shard_parameters && pick(2) == 1;
    if (in.preset.shard_parameters) {  // none, some or all
      const bool all = pick(3) == 0;
      mark_persistent(in.units, all ? 1'000'000 : pick(2) * 400, all ? 1'000'000 : pick(1000));
    }
    for (BucketMemory& memory : in.bucket_memory) {
      memory.replica_image = 700;
      memory.replica_reduce_workspace = 300;
      memory.replica_gather_workspace = 500;
    }
    const Schedule step = make_step_schedule(in, pick(2) == 1);
    const Schedule evaluation = make_evaluation_schedule(in, false);
    // A schedule after an update, or after the first gathers, begins beside their refreshes.
    const auto behind = [&](const Schedule& earlier, const Schedule& next) {
      return plan::update_and_step_schedule(earlier, next, in, {});
    };
    for (const Schedule& schedule :
         {step, evaluation, behind(make_update_schedule(in), step),
          behind(make_update_schedule(in), evaluation), behind(make_initial_schedule(in), step)}) {
      struct Use {
        std::size_t begin, end, op;
        bool reads;  ///< only
      };
      std::vector<Use> uses;
      const auto add = [&](std::size_t offset, std::size_t bytes, std::size_t op,
                           bool reads = false) {
        if (offset == kNoMemory) return;
        EXPECT_LE(offset + bytes, schedule.arena_bytes);
        uses.push_back({offset, offset + bytes, op, reads});
      };
      std::map<std::size_t, std::pair<std::size_t, std::size_t>> weights;  // unit -> offset, bytes
      std::map<std::size_t, std::pair<std::size_t, std::size_t>>
          gradients;  // unit -> offset, bytes
      for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
        const Op& op = schedule.ops[i];
        for (const std::size_t w : op.waits_on) ASSERT_LT(w, i);
        if (op.kind == OpKind::gather || op.kind == OpKind::gather_secondary) {
          const auto& memory = in.unit_memory[op.index];
          const std::size_t workspace =
              op.kind == OpKind::gather ? memory.gather_workspace : memory.secondary_workspace;
          weights[op.index] = {op.result, memory.weights};
          add(op.result, memory.weights, i);
          add(op.workspace, workspace, i);
        } else if (op.kind == OpKind::exchange) {
          add(op.workspace, in.unit_memory[op.index].exchange_workspace, i);
        } else if (op.kind == OpKind::keep_secondary) {
          add(weights[op.index].first, weights[op.index].second, i, true);
        } else if (op.kind == OpKind::clear_gradients && op.result != kNoMemory) {
          gradients[op.index] = {op.result, in.unit_memory[op.index].gradients};
          add(op.result, in.unit_memory[op.index].gradients, i);
        } else if (op.kind == OpKind::forward || op.kind == OpKind::backward) {
          for (const std::size_t unit : in.layers[op.index].units) {
            if (weights.contains(unit)) add(weights[unit].first, weights[unit].second, i, true);
            if (op.kind == OpKind::backward && gradients.contains(unit)) {
              add(gradients[unit].first, gradients[unit].second, i);
            }
          }
        } else if (op.kind == OpKind::reduce) {
          add(op.result, in.bucket_memory[op.index].sum, i);
          add(op.workspace, in.bucket_memory[op.index].workspace, i);
          for (const Segment& segment : in.buckets[op.index].segments) {
            if (gradients.contains(segment.unit))
              add(gradients[segment.unit].first, gradients[segment.unit].second, i, true);
          }
        } else if (op.kind == OpKind::gather_sum) {
          add(op.result, in.bucket_memory[op.index].sum, i);
          add(op.workspace, in.bucket_memory[op.index].gather_sum_workspace, i);
        } else if (op.kind == OpKind::reduce_over_replicas) {
          add(op.result, in.bucket_memory[op.index].replica_image, i);
          add(op.workspace, in.bucket_memory[op.index].replica_reduce_workspace, i);
        } else if (op.kind == OpKind::gather_over_replicas) {
          add(op.result, in.bucket_memory[op.index].replica_image, i);
          add(op.workspace, in.bucket_memory[op.index].replica_gather_workspace, i);
        } else if (op.kind == OpKind::refresh || op.kind == OpKind::update) {
          add(op.workspace, in.unit_memory[op.index].refresh_workspace, i);
        }
      }
      const std::vector<std::vector<bool>> earlier = order_of(schedule);
      for (std::size_t b = 0; b < uses.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          if (uses[a].op == uses[b].op || uses[a].begin >= uses[b].end ||
              uses[b].begin >= uses[a].end || (uses[a].reads && uses[b].reads))
            continue;
          ASSERT_TRUE(earlier[uses[b].op][uses[a].op])
              << "trial " << trial << ": operation " << uses[b].op << " may overtake " << uses[a].op
              << " in the same memory";
        }
      }
    }
  }
}

TEST(Volume, IsTheSumOverTheSchedule) {
  ScheduleInput in = make_input(3, true, 2, 1 << 20, true, false, 1 << 20);
  Volumes volumes;
  for (std::size_t u = 0; u < in.units.size(); ++u) {
    volumes[OpKind::gather].push_back({1, 100});
    volumes[OpKind::gather_secondary].push_back({10, 0});
    volumes[OpKind::refresh].push_back({7, 7});
  }
  for (std::size_t b = 0; b < in.buckets.size(); ++b)
    volumes[OpKind::reduce].push_back({1000, 10000});
  const comm::Bytes bytes = volume(make_step_schedule(in, false), volumes);
  EXPECT_EQ(bytes.inter, 5 * 100 + 2 * in.buckets.size() * 10000);
  EXPECT_EQ(bytes.intra, 5 * 1 + 15 * 10 + 2 * in.buckets.size() * 1000);
  in.exchanges = true;
  volumes[OpKind::exchange].assign(in.units.size(), {0, 50});
  const comm::Bytes exchanged = volume(make_step_schedule(in, false), volumes);
  EXPECT_EQ(exchanged.inter, 5 * 50 + 2 * in.buckets.size() * 10000);
  EXPECT_EQ(exchanged.intra, 20 * 10 + 2 * in.buckets.size() * 1000);
}

/// A collective that nothing describes is no collective without bytes.
TEST(Volume, ThrowsForACollectiveThatIsMissing) {
  const ScheduleInput in = make_input(3, false, 1, 1 << 20, true, false, 1 << 20);
  const Schedule schedule = make_step_schedule(in, false);
  Volumes volumes;
  volumes[OpKind::gather].assign(in.units.size(), {1, 100});
  EXPECT_THROW((void)volume(schedule, volumes), std::out_of_range);
  volumes[OpKind::reduce].assign(in.buckets.size(), {1, 100});
  EXPECT_NO_THROW((void)volume(schedule, volumes));
  volumes[OpKind::reduce].pop_back();
  EXPECT_THROW((void)volume(schedule, volumes), std::out_of_range);
}

/// The first refresh sends whole weights, whatever refreshes of updated weights send.
TEST(Volume, OfTheFirstRefreshIsThatOfWholeWeights) {
  const ScheduleInput in = make_input(2, false, 1, 1 << 20, true, false, 1 << 20);
  Volumes volumes;
  for (std::size_t u = 0; u < in.units.size(); ++u) {
    volumes[OpKind::gather].push_back({1, 100});
    volumes[OpKind::refresh].push_back({7, 70});
  }
  EXPECT_EQ(volume(make_initial_schedule(in), volumes).inter, 100 * in.units.size());
  EXPECT_EQ(volume(make_update_schedule(in), volumes).inter, 70 * in.units.size());
}

}  // namespace
}  // namespace zeropp::zero
