// ctest: name=collective_registry np=1,4 cuda=mpi,nccl timeout=60 labels=sanitize
// The registered collectives, the refusals of the registry, and the entries of traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "lib/collective/all_to_all.hpp"
#include "lib/collective/entries.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using testing::HasSubstr;

std::size_t files_in(const char* folder) {
  const char* source = std::getenv("ZEROPP_SOURCE");
  if (source == nullptr) throw std::runtime_error("ZEROPP_SOURCE is not set: run through ctest");
  const auto path = std::filesystem::path(source) / "lib/collective" / folder;
  return static_cast<std::size_t>(
      std::ranges::count_if(std::filesystem::directory_iterator(path),
                            [](const auto& entry) { return entry.path().extension() == ".cpp"; }));
}

template <class Algorithm>
std::vector<std::string> names(const std::vector<const Algorithm*>& algorithms) {
  std::vector<std::string> list;
  for (const auto* algorithm : algorithms) {
    EXPECT_FALSE(algorithm->summary.empty());
    list.emplace_back(algorithm->name);
  }
  return list;
}

TEST(Registry, IsTheFolder) {
  const auto gathers = names(all_gather_algorithms());
  EXPECT_EQ(gathers.size(), files_in("all_gather"));
  EXPECT_THAT(gathers, testing::IsSupersetOf({"flat", "native", "two-level"}));
  EXPECT_TRUE(std::ranges::is_sorted(gathers));
  const auto reductions = names(reduce_scatter_algorithms());
  EXPECT_EQ(reductions.size(), files_in("reduce_scatter"));
  EXPECT_THAT(reductions, testing::IsSupersetOf({"1-hop", "2-hop", "flat", "native", "ordered"}));
  EXPECT_TRUE(std::ranges::is_sorted(reductions));
  EXPECT_EQ(std::ranges::adjacent_find(reductions), reductions.end());
}

template <class Body>
void expect_refusal(ExitCode code, const char* words, Body&& body) {
  try {
    body();
    FAIL() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

const codec::CodecSpec kInt8{"int8", 256, {}};

TEST(Refusals, GroupsOfAnotherDevice) {
  Cluster cluster(1);
  Context context = cluster.context();
  context.device.memory =
      context.device.memory == MemoryKind::host ? MemoryKind::device : MemoryKind::host;
  const AllGatherPlan gather{Parts::dense(8), Dtype::fp32, {}, 1, "test"};
  EXPECT_THROW((void)plan_all_gather("flat", context, gather), std::logic_error);
  const ReduceScatterPlan reduction{Parts::dense(8), Dtype::fp32, Dtype::fp32, {}, {}, 1, "test"};
  EXPECT_THROW((void)plan_reduce_scatter("flat", context, reduction), std::logic_error);
}

TEST(Refusals, NameTheRemedy) {
  Cluster cluster(1);
  const Context context = cluster.context();
  const AllGatherPlan gather{Parts::dense(8), Dtype::fp32, {}, 1, "test"};
  const ReduceScatterPlan reduction{Parts::dense(8), Dtype::fp32, Dtype::fp32, {}, {}, 1, "test"};
  expect_refusal(ExitCode::usage, "nearest known is 'two-level'",
                 [&] { (void)plan_all_gather("twolevel", context, gather); });
  expect_refusal(ExitCode::usage, "nearest known is 'ordered'",
                 [&] { (void)plan_reduce_scatter("orderd", context, reduction); });
  expect_refusal(ExitCode::usage, "'none'", [&] {
    auto plan = gather;
    plan.codec = kInt8;
    (void)plan_all_gather("native", context, plan);
  });
  for (const auto* algorithm : reduce_scatter_algorithms()) {
    if (algorithm->traits.any_codec) continue;
    expect_refusal(ExitCode::usage, "carries no codec but 'none'", [&] {
      auto plan = reduction;
      plan.codec_first = kInt8;
      (void)plan_reduce_scatter(algorithm->name, context, plan);
    });
  }
  expect_refusal(ExitCode::usage, "unknown format", [&] {
    auto plan = gather;
    plan.codec.format = "int9";
    (void)plan_all_gather("flat", context, plan);
  });
  expect_refusal(ExitCode::usage, "unknown format", [&] {
    AllToAll(context, {Parts::dense(8), Dtype::fp32, {"int9", 0, {}}, 1, "test"});
  });
  expect_refusal(ExitCode::usage, "depth of 0", [&] {
    auto plan = reduction;
    plan.depth = 0;
    (void)plan_reduce_scatter("1-hop", context, plan);
  });
  expect_refusal(ExitCode::usage, "depth of 0", [&] {
    AllToAll(context, {Parts::dense(8), Dtype::fp32, {}, 0, "test"});
  });
  const char* const refusal = "'nvfp4:16' has one scale for all that is sent at once";
  expect_refusal(ExitCode::usage, refusal, [&] {
    auto plan = gather;
    plan.codec = codec::parse_codec("nvfp4");
    plan.depth = 2;
    (void)plan_all_gather("flat", context, plan);
  });
  for (const char* const hop : {"first", "second"}) {
    expect_refusal(ExitCode::usage, refusal, [&] {
      auto plan = reduction;
      (std::string_view(hop) == "first" ? plan.codec_first : plan.codec_second) =
          codec::parse_codec("nvfp4");
      plan.depth = 2;
      (void)plan_reduce_scatter("2-hop", context, plan);
    });
  }
  expect_refusal(ExitCode::usage, refusal, [&] {
    AllToAll(context, {Parts::dense(8), Dtype::fp32, codec::parse_codec("nvfp4"), 2, "test"});
  });
  const Context in_node{cluster.groups, *cluster.groups.node, cluster.recorder, test::device()};
  expect_refusal(ExitCode::usage, "group 'node'",
                 [&] { (void)plan_all_gather("two-level", in_node, gather); });
}

TEST(Refusals, HierarchyOnUnequalNodes) {
  test::world().set_topology(1);
  comm::Groups groups = test::make_groups();
  groups.topology = {3, 2, 0, false};
  groups.rail.reset();
  trace::Recorder recorder;
  const Context context{groups, *groups.world, recorder, test::device()};
  for (const auto* algorithm : all_gather_algorithms()) {
    const auto plan = [&] {
      return plan_all_gather(algorithm->name, context,
                             {Parts::dense(8), Dtype::fp32, {}, 1, "test"});
    };
    if (algorithm->traits.hierarchical) {
      expect_refusal(ExitCode::environment, "same number of ranks on every node", plan);
    } else {
      EXPECT_NE(plan(), nullptr);
    }
  }
  for (const auto* algorithm : reduce_scatter_algorithms()) {
    const auto plan = [&] {
      return plan_reduce_scatter(algorithm->name, context,
                                 {Parts::dense(8), Dtype::fp32, Dtype::fp32, {}, {}, 1, "test"});
    };
    if (algorithm->traits.hierarchical) {
      expect_refusal(ExitCode::environment, "same number of ranks on every node", plan);
    } else {
      EXPECT_NE(plan(), nullptr);
    }
  }
}

TEST(Refusals, MemoryThatDoesNotFitThePlan) {
  Cluster cluster(1);
  const auto n = static_cast<std::size_t>(cluster.size());
  const auto planned =
      plan_all_gather("flat", cluster.context(), {Parts::dense(8), Dtype::fp32, {}, 1, "test"});
  const test::OnDevice part(8, Dtype::fp32);
  const test::OnDevice narrow(8, Dtype::bf16);
  const test::OnDevice full(8 * n, Dtype::fp32);
  const test::DeviceBytes workspace(planned->workspace_bytes());
  const auto start = [&](ConstView in, View out, std::span<std::byte> space) {
    planned->start(in, out, {space, test::stream().handle()});
  };
  EXPECT_THROW(start(narrow.view, full.view, workspace.span()), std::invalid_argument);
  EXPECT_THROW(start(View(part.view.part(0, 7)), full.view, workspace.span()),
               std::invalid_argument);
  EXPECT_THROW(start(part.view, full.view.part(0, 8 * n - 1), workspace.span()),
               std::invalid_argument);
  EXPECT_THROW(start(part.view, full.view, workspace.span().first(1)), std::invalid_argument);
  EXPECT_EQ(planned->row().calls, 0U);
}

TEST(Traces, ShowWhatRan) {
  const int n = test::world().size();
  const codec::CodecSpec int4{"int4", 128, {}};
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    const auto planned = plan_reduce_scatter(
        "2-hop", cluster.context(),
        {Parts::dense(1009), Dtype::fp32, Dtype::fp32, kInt8, int4, 1, "gradients"});
    EXPECT_TRUE(cluster.recorder.collectives.empty()) << "what never ran has no row";
    const test::OnDevice in(1009 * static_cast<std::size_t>(n), Dtype::fp32);
    const test::OnDevice out(1009, Dtype::fp32);
    const test::DeviceBytes workspace(planned->workspace_bytes());
    for (const char* phase : {"backward", "update", "backward"}) {
      planned->start(
          in.view, out.view,
          {.workspace = workspace.span(), .stream = test::stream().handle(), .phase = phase});
      planned->finish(test::stream().handle());
    }
    ASSERT_EQ(cluster.recorder.collectives.size(), 2U) << "a row for each phase";
    EXPECT_EQ(cluster.recorder.collectives.back().phase, "update");
    EXPECT_EQ(cluster.recorder.collectives.back().calls, 1U);
    const auto& row = planned->row();
    EXPECT_EQ(row.operation, "reduce_scatter");
    EXPECT_EQ(row.purpose, "gradients");
    EXPECT_EQ(row.phase, "backward");
    EXPECT_EQ(row.calls, 2U);
    EXPECT_EQ(row.wire_bytes_intra, 2 * planned->volume().intra);
    EXPECT_EQ(row.wire_bytes_inter, 2 * planned->volume().inter);
    EXPECT_EQ(row.algorithm, "2-hop");
    const bool two_hops = node_size > 1 && n / node_size > 1;
    EXPECT_EQ(row.codec, two_hops ? "int8:256/int4:128" : node_size == n ? "int8:256" : "int4:128");
    EXPECT_EQ(row.group, "world");
    EXPECT_EQ(!row.path.empty(), two_hops) << "a path is shown where sums are encoded again";
    EXPECT_EQ(&row, &cluster.recorder.collectives.front());
  }
}

TEST(Traces, TimeIsAccounted) {
  Cluster cluster(1);
  const AllGatherPlan plan{Parts::dense(100000), Dtype::fp32, kInt8, 2, "test"};
  const auto planned = plan_all_gather("flat", cluster.context(), plan);
  (void)test::run(*planned, plan, cluster.size(), cluster.rank(), Dtype::fp32);
  using Category = trace::Timers::Category;
  const auto& timers = cluster.recorder.timers;
  EXPECT_GT(timers.seconds(Category::codec), 0.0);
  if (cluster.size() > 1) {
    EXPECT_GT(timers.seconds(Category::communication), 0.0);
  }
  EXPECT_GE(planned->row().seconds,
            timers.seconds(Category::codec) + timers.seconds(Category::communication));
}

}  // namespace
}  // namespace zeropp::collective
