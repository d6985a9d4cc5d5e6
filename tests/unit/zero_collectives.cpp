// ctest: name=zero_collectives timeout=60 labels=sanitize
// The walk over the collectives of a run: each collective once, and one for every operation that
// sends, at every stage and with the options that change them. And the phases of operations, by
// which the trace counts them.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "lib/comm/shape.hpp"
#include "lib/comm/topology.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/rank_plan.hpp"

namespace zeropp::zero {
namespace {

constexpr int kNodes = 2;
constexpr int kLocals = 2;

std::vector<Unit> four_units() {
  std::vector<Unit> made;
  for (const char* name : {"embedding", "h.0", "h.1", "head"})
    made.push_back(layout_unit(name, {{.name = name, .shape = {96, 64}, .init = {}}}));
  return made;
}

const std::vector<Layer>& tied_layers() {
  static const std::vector<Layer> made{
      {"embedding", {0}}, {"h.0", {1}}, {"h.1", {2}}, {"head", {3, 0}}};
  return made;
}

Options quantized_at(int stage) {
  Options options;
  options.stage = stage;
  options.compute = Dtype::bf16;
  options.quantized_weights = stage > 0;
  options.weight_codec = codec::parse_codec("int8:64");
  options.quantized_gradients = true;
  options.all_gather_algorithm = "two-level";
  options.secondary_gather_algorithm = "direct";
  options.reduce_scatter_algorithm = "2-hop";
  return options;
}

/// Resolved options of every kind of run that has collectives of its own.
std::vector<Options> all_options() {
  std::vector<Options> all;
  for (const int stage : {0, 1, 2, 3}) all.push_back(quantized_at(stage));
  for (const int stage : {1, 2, 3}) {
    Options options = quantized_at(stage);
    options.weight_differences = {.enabled = true, .codec = codec::parse_codec("int4:64")};
    if (stage == 3) options.hpz_partition_size = kLocals;
    all.push_back(options);
  }
  Options hpz = quantized_at(3);
  hpz.hpz_partition_size = kLocals;
  hpz.persistence_threshold = 1;
  all.push_back(hpz);
  Options scheduled = quantized_at(3);
  scheduled.codec_schedule = {
      {.from_step = 1, .weight_codec = codec::parse_codec("int4:64")},
      {.from_step = 2, .gradient_codec_intra = codec::parse_codec("int8:32")}};
  all.push_back(scheduled);
  Options grouped = quantized_at(3);
  grouped.shard_group_size = kLocals;
  grouped.reduce_scatter_algorithm = "1-hop";
  grouped.all_gather_algorithm = "direct";
  all.push_back(grouped);
  return all;
}

comm::JobShape job_of(const Options& options) {
  return comm::shape_of_job(comm::declared_topology(kNodes * kLocals, kLocals), 0,
                            options.hpz_partition_size > 1 ? options.hpz_partition_size : 0,
                            options.shard_group_size);
}

RankPlan rank_plan_of(const Options& options) {
  return {options, four_units(), tied_layers(), job_of(options), job_of(options)};
}

template <class Check>
void for_each_op_of(const RankPlan& plan, const Check& check) {
  for (const Schedule* schedule :
       {&plan.step.step.stale, &plan.step.step.current, &plan.step.evaluation.stale,
        &plan.step.evaluation.current, &plan.step.update, &plan.step.initial}) {
    for (const Op& op : schedule->ops) check(op, schedule);
  }
}

TEST(Collectives, AreVisitedOnceEach) {
  for (const Options& options : all_options()) {
    const RankPlan plan = rank_plan_of(options);
    std::set<std::tuple<Transfer, std::size_t, std::size_t>> seen;
    const auto visit = [&](const Collective& made) {
      const auto& [transfer, index, codec] = made.key;
      EXPECT_TRUE(seen.emplace(transfer, index, codec).second)
          << "stage " << options.stage << ": a second one of " << index << " with codec " << codec;
      EXPECT_GT(made.runs, 0U);
    };
    for_each_weight_collective(options, plan.codecs, plan.units, visit);
    for_each_gradient_collective(options, plan.codecs, plan.units, plan.buckets(),
                                 job_of(options).sharding().world.size,
                                 job_of(options).shard_groups(), visit);
    EXPECT_FALSE(seen.empty());
  }
}

TEST(Collectives, EveryOperationThatSendsHasOneInEveryCodec) {
  std::set<OpKind> found;
  for (const Options& options : all_options()) {
    RankPlan plan = rank_plan_of(options);
    for (const std::uint64_t step : {0, 1, 2}) {
      CodecChoice choice = plan.codecs.at(step);
      for (const bool whole : {true, false}) {
        choice.whole_weights = whole || !options.weight_differences.enabled;
        plan.use(choice);
        for_each_op_of(plan, [&](const Op& op, const Schedule*) {
          const collective::Description* const described = plan.description(op);
          EXPECT_EQ(described != nullptr, sends(op.kind) != Sends::nothing) << name_of(op.kind);
          if (described == nullptr) return;
          found.insert(op.kind);
          EXPECT_EQ(described->bytes, volume(op, plan.step.volumes)) << name_of(op.kind);
          EXPECT_LE(described->workspace, op.bytes) << name_of(op.kind);
          EXPECT_EQ(described->row.purpose.starts_with("weights"),
                    sends(op.kind) == Sends::weights);
        });
      }
    }
  }
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    const auto each = static_cast<OpKind>(kind);
    EXPECT_EQ(found.contains(each), sends(each) != Sends::nothing)
        << name_of(each) << " is in no schedule";
  }
}

TEST(Phases, AreThoseOfTheSchedule) {
  for (const Options& options : all_options()) {
    const RankPlan plan = rank_plan_of(options);
    for_each_op_of(plan, [&](const Op& op, const Schedule* schedule) {
      const bool evaluates =
          schedule == &plan.step.evaluation.stale || schedule == &plan.step.evaluation.current;
      const bool trains = schedule == &plan.step.step.stale || schedule == &plan.step.step.current;
      if (evaluates) {
        EXPECT_EQ(op.phase, Phase::evaluation) << name_of(op.kind);
      } else if (trains) {
        EXPECT_TRUE(op.phase == Phase::forward || op.phase == Phase::backward) << name_of(op.kind);
        if (op.kind == OpKind::forward) {
          EXPECT_EQ(op.phase, Phase::forward);
        }
        if (op.kind == OpKind::backward || sends(op.kind) == Sends::gradients) {
          EXPECT_EQ(op.phase, Phase::backward) << name_of(op.kind);
        }
      } else {
        EXPECT_EQ(op.phase, schedule == &plan.step.update ? Phase::update : Phase::initial)
            << name_of(op.kind);
      }
    });
  }
}

}  // namespace
}  // namespace zeropp::zero
