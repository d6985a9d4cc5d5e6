// ctest: name=plan_simulate labels=sanitize
// Simulated steps against answers that can be worked out by hand: nothing hidden, all hidden,
// shared links, transfers that take from compute; and what holds for any schedule.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "lib/plan/simulate.hpp"

namespace zeropp::plan {
namespace {

using zero::Op;
using zero::OpKind;
using zero::Schedule;
using zero::StreamId;

OpCost on(Resource resource, double seconds) {
  OpCost cost;
  cost.start.add(resource, seconds);
  return cost;
}

Op op(OpKind kind, StreamId stream, std::vector<std::size_t> waits = {}) {
  Op made{kind, 0};
  made.stream = stream;
  made.waits_on = std::move(waits);
  return made;
}

double busy(const Timeline& timeline, Resource resource) {
  return timeline.busy[static_cast<std::size_t>(resource)];
}
double exposed(const Timeline& timeline, Resource resource) {
  return timeline.exposed[static_cast<std::size_t>(resource)];
}

/// `layers` times: gather, then compute what was gathered; gathers are prefetched.
Schedule pipeline(std::size_t layers) {
  Schedule schedule;
  for (std::size_t i = 0; i < layers; ++i) {
    schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
    schedule.ops.push_back(op(OpKind::forward, StreamId::compute, {2 * i}));
  }
  return schedule;
}

std::vector<OpCost> pipeline_costs(std::size_t layers, double gather, double compute) {
  std::vector<OpCost> costs;
  for (std::size_t i = 0; i < layers; ++i) {
    costs.push_back(on(Resource::rails, gather));
    costs.push_back(on(Resource::gpu, compute));
  }
  return costs;
}

TEST(PlanSimulate, PiecesOfACollectiveOverlap) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute, {0}));
  const auto cut = [](std::size_t pieces) {
    OpCost cost;
    cost.start.add(Resource::rails, 12.0 / static_cast<double>(pieces));
    cost.finish.add(Resource::node_links, 6.0 / static_cast<double>(pieces));
    cost.pieces = pieces;
    return cost;
  };
  for (const std::size_t pieces : {1U, 2U, 3U}) {
    const Timeline t = simulate(schedule, {cut(pieces), on(Resource::gpu, 1)}, {});
    EXPECT_DOUBLE_EQ(t.spans[0].started, 12);
    EXPECT_DOUBLE_EQ(t.spans[0].end, 12 + 6.0 / static_cast<double>(pieces));
    EXPECT_DOUBLE_EQ(t.seconds, t.spans[0].end + 1);
    EXPECT_DOUBLE_EQ(busy(t, Resource::node_links), 6);
  }
  OpCost none = cut(1);
  none.pieces = 0;
  EXPECT_THROW(simulate(schedule, {none, on(Resource::gpu, 1)}, {}), std::invalid_argument);
}

TEST(PlanSimulate, HidesGathersBehindLongerLayers) {
  const Timeline t = simulate(pipeline(10), pipeline_costs(10, 2, 5), {});
  EXPECT_DOUBLE_EQ(t.seconds, 2 + 10 * 5);
  EXPECT_DOUBLE_EQ(t.compute, 50);
  EXPECT_DOUBLE_EQ(t.exposed_seconds(), 2);
  EXPECT_DOUBLE_EQ(exposed(t, Resource::rails), 2);
  EXPECT_DOUBLE_EQ(busy(t, Resource::rails), 20);
}

TEST(PlanSimulate, HidesLayersBehindLongerGathers) {
  const Timeline t = simulate(pipeline(10), pipeline_costs(10, 5, 2), {});
  EXPECT_DOUBLE_EQ(t.seconds, 10 * 5 + 2);
  EXPECT_DOUBLE_EQ(t.exposed_seconds(), 50 - 9 * 2);
}

TEST(PlanSimulate, WithoutOverlapTimesAdd) {
  const Timeline t = simulate(pipeline(10), pipeline_costs(10, 5, 2), {}, false);
  EXPECT_DOUBLE_EQ(t.seconds, 10 * (5 + 2));
  EXPECT_DOUBLE_EQ(t.spans[3].begin, 5 + 2 + 5);
}

/// A gather and a reduction on one link, which carries `width` of them as fast as one.
Timeline two_transfers(double width, double first, double second) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::reduce, StreamId::reduce));
  Sharing sharing;
  sharing.width[static_cast<std::size_t>(Resource::rails)] = width;
  return simulate(schedule, {on(Resource::rails, first), on(Resource::rails, second)}, sharing);
}

TEST(PlanSimulate, TransfersShareALink) {
  // Both at half the rate until the shorter is done; then the longer alone.
  const Timeline shared = two_transfers(1, 3, 7);
  EXPECT_DOUBLE_EQ(shared.spans[0].end, 6);
  EXPECT_DOUBLE_EQ(shared.spans[1].end, 10);
  // One and a half times as much as one can use.
  const Timeline wider = two_transfers(1.5, 3, 7);
  EXPECT_DOUBLE_EQ(wider.spans[0].end, 4);
  EXPECT_DOUBLE_EQ(wider.spans[1].end, 4 + 4);
  EXPECT_DOUBLE_EQ(two_transfers(2, 3, 7).seconds, 7);
}

TEST(PlanSimulate, TransfersTakeFromCompute) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute));
  Sharing sharing;
  sharing.gpu_share[static_cast<std::size_t>(Resource::node_links)] = 0.25;
  const Timeline t =
      simulate(schedule, {on(Resource::node_links, 4), on(Resource::gpu, 10)}, sharing);
  EXPECT_DOUBLE_EQ(t.spans[0].end, 4);
  EXPECT_DOUBLE_EQ(t.seconds, 4 + (10 - 3));
}

TEST(PlanSimulate, CopiesShareLinksAndLeaveTheGpu) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute));
  schedule.ops.push_back(op(OpKind::reduce, StreamId::reduce));
  Sharing sharing;
  sharing.gpu_share[static_cast<std::size_t>(Resource::node_links)] = 0.25;
  const Timeline t = simulate(
      schedule, {on(Resource::copies, 4), on(Resource::gpu, 10), on(Resource::none, 1)}, sharing);
  EXPECT_DOUBLE_EQ(t.spans[0].end, 4);
  EXPECT_DOUBLE_EQ(t.seconds, 10);
  // Half of the links each, as two of one kind would have; the kernel of one takes from compute.
  const Timeline both = simulate(
      schedule, {on(Resource::copies, 4), on(Resource::gpu, 10), on(Resource::node_links, 4)},
      sharing);
  EXPECT_DOUBLE_EQ(both.spans[0].end, 8);
  EXPECT_DOUBLE_EQ(both.spans[2].end, 8);
  EXPECT_DOUBLE_EQ(both.seconds, 8 + (10 - 6));
}

/// Links that carry one and a half transfers of kernels have nothing left beside one of copies that
/// takes them all: two carry no more than one.
TEST(PlanSimulate, ATransferMayTakeMoreOfALinkThanAnother) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::reduce, StreamId::reduce));
  Sharing sharing;
  sharing.width[static_cast<std::size_t>(Resource::node_links)] = 1.5;
  sharing.demand[static_cast<std::size_t>(Resource::copies)] = 1.5;
  const auto ends = [&](Resource first, Resource second) {
    const Timeline t = simulate(schedule, {on(first, 3), on(second, 7)}, sharing);
    return std::pair(t.spans[0].end, t.spans[1].end);
  };
  EXPECT_EQ(ends(Resource::copies, Resource::copies), std::pair(6.0, 10.0));
  // Three quarters of the width each: all but a quarter of what the kernel wants, half of the
  // copies.
  const auto [kernel, copies] = ends(Resource::node_links, Resource::copies);
  EXPECT_DOUBLE_EQ(kernel, 4);
  EXPECT_DOUBLE_EQ(copies, 4 + (7 - 2));
  EXPECT_EQ(ends(Resource::none, Resource::copies).second, 7);
}

/// Each kernel beside a layer waits, not one that begins when no layer runs; copies are none.
TEST(PlanSimulate, KernelsWaitForThoseOfLayers) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute));
  schedule.ops.push_back(op(OpKind::reduce, StreamId::reduce));
  Sharing sharing;
  sharing.kernel_wait = 2;
  const auto reduction = [](Resource way) {
    OpCost cost = on(Resource::gpu, 1);
    cost.start.add(way, 3);
    return cost;
  };
  // Held to 2, a kernel that shares the GPU to 4, held again to 6, sent to 9.
  const Timeline sent =
      simulate(schedule, {on(Resource::gpu, 10), reduction(Resource::node_links)}, sharing);
  EXPECT_DOUBLE_EQ(sent.spans[1].end, 9);
  EXPECT_DOUBLE_EQ(sent.seconds, 11);
  const Timeline copied =
      simulate(schedule, {on(Resource::gpu, 10), reduction(Resource::copies)}, sharing);
  EXPECT_DOUBLE_EQ(copied.spans[1].end, 7);
  EXPECT_DOUBLE_EQ(copied.seconds, 11);
  // The end of a layer is the end of what it waits for.
  const Timeline shorter =
      simulate(schedule, {on(Resource::gpu, 1.5), reduction(Resource::node_links)}, sharing);
  EXPECT_DOUBLE_EQ(shorter.spans[1].end, 1.5 + 1 + 3);
  schedule.ops[1].waits_on = {0};
  const Timeline after =
      simulate(schedule, {on(Resource::gpu, 10), reduction(Resource::node_links)}, sharing);
  EXPECT_DOUBLE_EQ(after.seconds, 14);
}

TEST(PlanSimulate, LaterHopsLeaveTheStreamToTheNext) {
  // Two collectives: the second starts while the first is inside its node.
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute, {1}));
  OpCost gather = on(Resource::rails, 3);
  gather.finish.add(Resource::node_links, 2);
  const Timeline t = simulate(schedule, {gather, gather, on(Resource::gpu, 1)}, {});
  EXPECT_DOUBLE_EQ(t.spans[0].started, 3);
  EXPECT_DOUBLE_EQ(t.spans[0].end, 5);
  EXPECT_DOUBLE_EQ(t.spans[1].begin, 3);
  EXPECT_DOUBLE_EQ(t.spans[1].end, 8);
  EXPECT_DOUBLE_EQ(t.seconds, 9);
}

TEST(PlanSimulate, LatencyIsSharedByNothing) {
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::gather, StreamId::gather));
  schedule.ops.push_back(op(OpKind::reduce, StreamId::reduce));
  const Timeline t = simulate(schedule, {on(Resource::none, 3), on(Resource::none, 3)}, {});
  EXPECT_DOUBLE_EQ(t.seconds, 3);
  EXPECT_DOUBLE_EQ(exposed(t, Resource::none), 3);
}

TEST(PlanSimulate, NothingTakesNoTime) {
  EXPECT_EQ(simulate({}, {}, {}).seconds, 0);
  EXPECT_EQ(simulate(pipeline(3), pipeline_costs(3, 0, 0), {}).seconds, 0);
}

TEST(PlanSimulate, RefusesWhatIsNoSchedule) {
  EXPECT_THROW(simulate(pipeline(2), pipeline_costs(1, 1, 1), {}), std::invalid_argument);
  Schedule schedule;
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute, {1}));
  schedule.ops.push_back(op(OpKind::forward, StreamId::compute));
  EXPECT_THROW(simulate(schedule, {on(Resource::gpu, 1), on(Resource::gpu, 1)}, {}),
               std::invalid_argument);
}

/// Any schedule: streams, waits and durations at random.
struct Random {
  explicit Random(unsigned seed) : generator(seed) {
    constexpr std::array<StreamId, 5> kStreams{StreamId::compute, StreamId::gather,
                                               StreamId::reduce, StreamId::secondary,
                                               StreamId::update};
    for (std::size_t i = 0; i < 60; ++i) {
      std::vector<std::size_t> waits;
      for (std::size_t w = 0; i > 0 && w < pick(3); ++w) waits.push_back(pick(i));
      const StreamId stream = kStreams.at(pick(kStreams.size()));
      schedule.ops.push_back(op(OpKind::forward, stream, waits));
      OpCost cost;
      for (std::size_t s = 0; s < pick(3); ++s) {
        cost.start.add(static_cast<Resource>(pick(kResources)), static_cast<double>(pick(100)));
      }
      if (zero::ends_on(stream) != stream) {
        cost.finish.add(static_cast<Resource>(pick(kResources)), static_cast<double>(pick(100)));
      }
      costs.push_back(cost);
    }
  }
  std::size_t pick(std::size_t below) { return generator() % below; }

  std::mt19937 generator;
  Schedule schedule;
  std::vector<OpCost> costs;
};

TEST(PlanSimulate, KeepsOrderAndBoundsOfAnySchedule) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const Random random(seed);
    const Timeline t = simulate(random.schedule, random.costs, {});
    double sum = 0;
    std::array<double, kResources> wanted{};
    for (std::size_t i = 0; i < random.costs.size(); ++i) {
      const Span& span = t.spans[i];
      const double alone = random.costs[i].start.seconds() + random.costs[i].finish.seconds();
      sum += alone;
      EXPECT_GE(span.end - span.begin, alone * (1 - 1e-9)) << "seed " << seed << ", op " << i;
      for (const std::size_t before : random.schedule.ops[i].waits_on) {
        EXPECT_LE(t.spans[before].end, span.begin) << "seed " << seed << ", op " << i;
      }
      for (const Stages* half : {&random.costs[i].start, &random.costs[i].finish}) {
        for (const Stage& stage : *half) {
          wanted[static_cast<std::size_t>(stage.resource)] += stage.seconds;
        }
      }
    }
    EXPECT_LE(t.seconds, sum * (1 + 1e-9)) << "seed " << seed;
    const double links = wanted[static_cast<std::size_t>(Resource::node_links)] +
                         wanted[static_cast<std::size_t>(Resource::copies)];
    EXPECT_GE(t.seconds, links * (1 - 1e-9)) << "seed " << seed;
    for (const Resource resource : {Resource::gpu, Resource::rails}) {
      const double need = wanted[static_cast<std::size_t>(resource)];
      EXPECT_GE(t.seconds, need * (1 - 1e-9)) << "seed " << seed;
      // A link that is shared evenly loses nothing.
      EXPECT_NEAR(busy(t, resource), need, 1e-9 * (need + 1)) << "seed " << seed;
    }
    EXPECT_NEAR(t.compute + t.exposed_seconds(), t.seconds, 1e-9 * (sum + 1)) << "seed " << seed;
    EXPECT_NEAR(simulate(random.schedule, random.costs, {}, false).seconds, sum, 1e-9 * (sum + 1))
        << "seed " << seed;
  }
}

// Links that are faster may reorder who shares what, and a single operation may end later; but when
// everything takes half the time, so does the whole.
TEST(PlanSimulate, ScalesWithItsCosts) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Random random(seed);
    std::vector<OpCost> half;
    for (const OpCost& cost : random.costs) {
      OpCost faster;
      for (const Stage& s : cost.start) faster.start.add(s.resource, s.seconds / 2);
      for (const Stage& s : cost.finish) faster.finish.add(s.resource, s.seconds / 2);
      half.push_back(faster);
    }
    const double whole = simulate(random.schedule, random.costs, {}).seconds;
    EXPECT_NEAR(simulate(random.schedule, half, {}).seconds, whole / 2, 1e-9 * whole);
  }
}

}  // namespace
}  // namespace zeropp::plan
