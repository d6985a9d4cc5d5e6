// ctest: name=plan_search timeout=240 labels=sanitize
// The search: every candidate has the bytes and the memory of its own plan, limits hold, nothing in
// the answer is beaten and nothing that is not is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/plan/estimate.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/plan/search.hpp"
#include "lib/plan/step_time.hpp"

namespace zeropp::plan {
namespace {

constexpr std::size_t kSearchedVocab = 300;

config::TrainConfig base() {
  config::TrainConfig config;
  config.model = {
      .num_layers = 4, .hidden_size = 96, .seq_length = 32, .vocab_size = kSearchedVocab};
  config.bf16 = true;
  config.backend = Backend::cuda;
  config.zero.reduce_bucket_size = 100'000;
  return config;
}

config::Machine machine_of(const comm::Topology& topology) {
  app::GpuPlacement gpus;
  gpus.every_rank = true;
  gpus.own = true;
  return app::machine_of(topology, gpus);
}

SearchResult searched(const config::TrainConfig& config, const comm::Topology& topology,
                      const SearchLimits& limits = {}) {
  const config::Machine machine = machine_of(topology);
  return search(config, whole_space(config, topology, machine), topology, machine, kSearchedVocab,
                limits);
}

bool no_worse(const Candidate& a, const Candidate& b) {
  return a.step.inter <= b.step.inter && a.step.intra <= b.step.intra && a.memory <= b.memory &&
         a.hardware_flops <= b.hardware_flops && a.weight_bits >= b.weight_bits &&
         a.gradient_bits >= b.gradient_bits;
}

/// An ordinary step of a candidate, planned alone.
PlannedRun alone(const Candidate& candidate, const comm::Topology& topology) {
  PlannedRun run(candidate.config, topology, kSearchedVocab);
  run.plan_step(ordinary_step(candidate.config.zero));
  return run;
}

void expect_planned(const Candidate& candidate, const comm::Topology& topology) {
  const Estimate own = estimate(alone(candidate, topology));
  EXPECT_EQ(own.step.total().bytes, candidate.step);
  EXPECT_EQ(own.memory_bytes, candidate.memory);
}

/// A cluster whose links and kernels take what is asked for.
Cluster cluster_of(double rail_rate, double node_rate, double gpu_rate) {
  Cluster cluster;
  cluster.gpu.peak = gpu_rate;
  cluster.gpu.memory_rate = 1e12;
  cluster.gpu.products = {{1024, 1024, 1024, gpu_rate, gpu_rate}};
  cluster.gpu.attention = {{1024, 64, gpu_rate / 4, gpu_rate / 4}};
  cluster.node_links = {
      .latency = 1e-5, .hop_latency = 1e-6, .rate = node_rate, .most = 1.3 * node_rate};
  cluster.rails = {.links_per_node = 2, .hop_latency = 1e-6, .lanes = {}, .gpu_share = 0.05};
  cluster.rails.lanes = {{1, 2e-5, rail_rate, {}}, {2, 2e-5, 1.4 * rail_rate, {}}};
  return cluster;
}

TEST(Search, CandidatesAreTheirOwnPlans) {
  std::mt19937 generator(3);
  for (const auto& [nodes, local] : {std::pair{2, 2}, {4, 2}, {1, 4}, {3, 1}}) {
    const auto topology =
        planned_topology(static_cast<std::size_t>(nodes), static_cast<std::size_t>(local));
    config::TrainConfig config = base();
    config.train_batch_size = static_cast<std::size_t>(topology.world_size) * 8;
    SearchResult result = searched(config, topology);
    ASSERT_FALSE(result.best.empty());
    std::ranges::shuffle(result.best, generator);
    for (std::size_t i = 0; i < std::min<std::size_t>(12, result.best.size()); ++i) {
      expect_planned(result.best[i], topology);
    }
  }
}

TEST(Search, CountsTheDevicesMemoryOnly) {
  const comm::Topology topology = planned_topology(2, 2);
  config::TrainConfig config = base();
  const SearchResult plain = searched(config, topology);
  config.zero.offload_optimizer.device = zero::OffloadDevice::cpu;
  const SearchResult offloaded = searched(config, topology);
  ASSERT_FALSE(offloaded.best.empty());
  for (const Candidate& candidate : offloaded.best) expect_planned(candidate, topology);
  const auto least = [](const SearchResult& result) {
    return std::ranges::min(result.best, {}, &Candidate::memory).memory;
  };
  EXPECT_LT(least(offloaded), least(plain));
}

/// A candidate has the same shards of whole blocks as its run.
TEST(Search, KeepsMomentsAsAskedFor) {
  const comm::Topology topology = planned_topology(3, 1);
  config::TrainConfig config = base();
  const auto least = [&](optim::Moments moments) {
    config.optimizer.moments = moments;
    const SearchResult result = searched(config, topology);
    for (std::size_t i = 0; i < result.best.size(); i += 1 + result.best.size() / 6) {
      expect_planned(result.best[i], topology);
    }
    return std::ranges::min(result.best, {}, &Candidate::memory).memory;
  };
  const std::size_t wide = least(optim::Moments::fp32);
  const std::size_t bf16 = least(optim::Moments::bf16);
  EXPECT_LT(bf16, wide);
  EXPECT_LT(least(optim::Moments::int8), bf16);
}

TEST(Search, UpdatesInBackwardWhereAStageAllowsIt) {
  const comm::Topology topology = planned_topology(3, 1);
  config::TrainConfig config = base();
  config.gradient_accumulation_steps = 1;
  config.zero.update_in_backward = true;
  const SearchResult result = searched(config, topology);
  ASSERT_FALSE(result.best.empty());
  for (const Candidate& candidate : result.best) {
    EXPECT_GE(candidate.config.zero.stage, 2);
    EXPECT_EQ(candidate.config.gradient_accumulation_steps, 1U);
  }
  for (std::size_t i = 0; i < result.best.size(); i += 1 + result.best.size() / 6) {
    expect_planned(result.best[i], topology);
  }
}

// Micro-steps beyond the second are not planned but counted.
TEST(Search, ManyMicroStepsAtEveryStage) {
  const comm::Topology topology = planned_topology(2, 2);
  for (const int stage : {0, 1, 2, 3}) {
    for (const std::size_t micro_steps : {1, 2, 3, 7}) {
      config::TrainConfig config = base();
      config.gradient_accumulation_steps = micro_steps;
      const config::Machine machine = machine_of(topology);
      SearchSpace space = whole_space(config, topology, machine);
      space.stages = {stage};
      const SearchResult result = search(config, space, topology, machine, kSearchedVocab, {});
      ASSERT_FALSE(result.best.empty());
      for (std::size_t i = 0; i < result.best.size(); i += 1 + result.best.size() / 4) {
        EXPECT_EQ(result.best[i].config.zero.accumulation_steps, micro_steps);
        expect_planned(result.best[i], topology);
      }
    }
  }
}

// stage3_max_reuse_distance stays what it is, also where memory bounds what stays gathered.
TEST(Search, WeightsThatStayGathered) {
  const comm::Topology topology = planned_topology(2, 2);
  const config::Machine machine = machine_of(topology);
  const Cluster cluster = cluster_of(1e9, 1e10, 1e13);
  for (const std::size_t live : {std::size_t{300'000}, std::size_t{1'000'000'000}}) {
    config::TrainConfig config = base();
    config.gradient_accumulation_steps = 5;
    config.zero.max_live_parameters = live;
    SearchSpace space = whole_space(config, topology, machine);
    space.stages = {3};
    space.hpz_sizes = {1};
    space.shard_groups = {zero::kAllRanks};
    const auto least = [&](std::size_t distance) {
      config.zero.max_reuse_distance = distance;
      const SearchResult found =
          search(config, space, topology, machine, kSearchedVocab, {}, &cluster);
      for (std::size_t i = 0; i < found.best.size(); i += 1 + found.best.size() / 6) {
        expect_planned(found.best[i], topology);
        EXPECT_EQ(found.best[i].seconds, step_seconds(alone(found.best[i], topology), cluster));
      }
      return std::ranges::min(found.best, {}, [](const Candidate& c) { return c.step.inter; })
          .step.inter;
    };
    EXPECT_LT(least(1'000'000'000), least(0));
  }
}

TEST(Search, NothingIsBeatenAndNothingIsMissing) {
  const comm::Topology topology = planned_topology(2, 2);
  const config::Machine machine = machine_of(topology);
  SearchSpace space = whole_space(base(), topology, machine);
  const SearchResult whole = search(base(), space, topology, machine, kSearchedVocab, {});
  for (const Candidate& a : whole.best) {
    for (const Candidate& b : whole.best) EXPECT_TRUE(&a == &b || !no_worse(a, b));
  }
  // Each candidate of any part of the space is there, or one that is as good.
  std::size_t possible = 0;
  for (const WeightChoice& weights : space.weights) {
    SearchSpace part = space;
    part.weights = {weights};
    const SearchResult found = search(base(), part, topology, machine, kSearchedVocab, {});
    possible += found.possible;
    for (const Candidate& candidate : found.best) {
      EXPECT_TRUE(std::ranges::any_of(
          whole.best, [&](const Candidate& best) { return no_worse(best, candidate); }));
    }
  }
  EXPECT_EQ(possible, whole.possible);
}

TEST(Search, LimitsHold) {
  const comm::Topology topology = planned_topology(2, 4);
  const SearchResult all = searched(base(), topology);
  const auto [least, most] = std::ranges::minmax(all.best, {}, &Candidate::memory);
  const std::size_t limit = (least.memory + most.memory) / 2;
  const SearchResult small = searched(base(), topology, {.memory = limit});
  EXPECT_LT(small.fitting, all.fitting);
  EXPECT_EQ(small.possible, all.possible);
  for (const Candidate& candidate : small.best) EXPECT_LE(candidate.memory, limit);
  EXPECT_TRUE(searched(base(), topology, {.memory = least.memory - 1}).best.empty());
  const SearchResult fine = searched(base(), topology, {.weight_bits = 8, .gradient_bits = 6});
  ASSERT_FALSE(fine.best.empty());
  for (const Candidate& candidate : fine.best) {
    EXPECT_GE(candidate.weight_bits, 8);
    EXPECT_GE(candidate.gradient_bits, 6);
  }
}

/// The shortest step time of every combination of the space, tried one by one.
double shortest_of_all(const config::TrainConfig& config, const SearchSpace& space,
                       const comm::Topology& topology, const Cluster& cluster) {
  const config::Machine machine = machine_of(topology);
  double shortest = std::numeric_limits<double>::infinity();
  const auto time_all = [&](const SearchSpace& one) {
    const SearchResult found = search(config, one, topology, machine, kSearchedVocab, {}, &cluster);
    for (const Candidate& candidate : found.best) {
      shortest = std::min(shortest, candidate.seconds.value());
    }
  };
  SearchSpace one = space;
  for (const int stage : space.stages) {
    one.stages = {stage};
    for (const auto& weights : space.weights) {
      one.weights = {weights};
      for (const auto& gradients : space.gradient_codecs) {
        one.gradient_codecs = {gradients};
        for (const std::size_t hpz : space.hpz_sizes) {
          one.hpz_sizes = {hpz};
          for (const auto& all_gather : space.all_gathers) {
            one.all_gathers = {all_gather};
            for (const auto& reduce_scatter : space.reduce_scatters) {
              one.reduce_scatters = {reduce_scatter};
              for (const bool recompute : space.recompute) {
                one.recompute = {recompute};
                for (const std::size_t micro_batch : space.micro_batches) {
                  one.micro_batches = {micro_batch};
                  time_all(one);
                }
              }
            }
          }
        }
      }
    }
  }
  return shortest;
}

TEST(Search, FindsTheFastestOfAll) {
  int beaten_without_times = 0;
  // Recomputation and two micro-batches quadruple the configurations: one cluster has them.
  for (const auto& [nodes, local, rail, node, gpu, whole] :
       {std::tuple{1, 4, 1e9, 1e11, 1e14, true},
        {2, 2, 1e8, 1e10, 1e12, false},
        {2, 2, 1e10, 1e10, 1e14, false},
        {2, 4, 1e9, 1e11, 1e13, false},
        {4, 1, 1e9, 1e10, 1e13, false}}) {
    const auto topology =
        planned_topology(static_cast<std::size_t>(nodes), static_cast<std::size_t>(local));
    SCOPED_TRACE(testing::Message() << topology.describe() << " " << rail << " " << node);
    const Cluster cluster = cluster_of(rail, node, gpu);
    config::TrainConfig config = base();
    config.model.hidden_size = 512;
    config.model.num_attention_heads = 8;
    config.train_batch_size = static_cast<std::size_t>(topology.world_size) * (whole ? 2 : 1);
    const config::Machine machine = machine_of(topology);
    SearchSpace space = whole_space(config, topology, machine);
    if (!whole) space.recompute = {false};
    space.weights = {{codec::parse_codec("none")},
                     {codec::parse_codec("int8:256")},
                     {codec::parse_codec("int8:256"), codec::parse_codec("int4:128")}};
    space.gradient_codecs = {{codec::parse_codec("none"), codec::parse_codec("none")},
                             {codec::parse_codec("int8:128"), codec::parse_codec("int4:128")}};
    const SearchResult found =
        search(config, space, topology, machine, kSearchedVocab, {}, &cluster);
    const Candidate& fastest = *std::ranges::min_element(found.best, {}, &Candidate::seconds);
    EXPECT_DOUBLE_EQ(fastest.seconds.value(), shortest_of_all(config, space, topology, cluster));
    // A search without times drops the fastest if others send, hold and compute no more.
    const SearchResult untimed = search(config, space, topology, machine, kSearchedVocab, {});
    beaten_without_times += std::ranges::none_of(untimed.best, [&](const Candidate& other) {
      return other.config.zero.all_gather_algorithm == fastest.config.zero.all_gather_algorithm &&
             other.config.zero.reduce_scatter_algorithm ==
                 fastest.config.zero.reduce_scatter_algorithm &&
             other.step == fastest.step && other.memory == fastest.memory;
    });
  }
  EXPECT_GT(beaten_without_times, 0);
}

// hpZ's copy in the memory of the host saves bytes between ranks for bytes over the link of the
// GPU.
TEST(Search, FindsTheFastestBesideCopiesOnTheHost) {
  const auto topology = planned_topology(2, 4);
  config::TrainConfig config = base();
  config.zero.hpz_device = zero::HpzDevice::cpu;
  config.train_batch_size = static_cast<std::size_t>(topology.world_size) * 4;
  const config::Machine machine = machine_of(topology);
  SearchSpace space = whole_space(config, topology, machine);
  space.stages = {3};
  space.weights = {{codec::parse_codec("none")}, {codec::parse_codec("int8:256")}};
  space.gradient_codecs = {{codec::parse_codec("none"), codec::parse_codec("none")}};
  space.reduce_scatters = {"2-hop"};
  std::set<std::size_t> sizes;
  for (const double link_rate : {1e7, 1e8, 1e9, 1e12}) {
    Cluster cluster = cluster_of(1e8, 1e10, 1e13);
    cluster.host = {.link_rate = link_rate, .memory_rate = 1e11};
    const SearchResult found =
        search(config, space, topology, machine, kSearchedVocab, {}, &cluster);
    const Candidate& fastest = *std::ranges::min_element(found.best, {}, &Candidate::seconds);
    EXPECT_DOUBLE_EQ(fastest.seconds.value(), shortest_of_all(config, space, topology, cluster))
        << link_rate;
    sizes.insert(fastest.config.zero.hpz_partition_size);
  }
  EXPECT_GT(sizes.size(), 1U);
}

template <class Value>
Value one_of(std::mt19937& generator, std::initializer_list<Value> values) {
  return values.begin()[generator() % values.size()];
}

/// A few choices of each kind, every size of hpZ among them.
SearchSpace some_of(SearchSpace space, std::mt19937& generator) {
  const auto keep = [&](auto& values, std::size_t count) {
    std::ranges::shuffle(values, generator);
    values.resize(std::min(values.size(), count));
  };
  keep(space.weights, 3);
  keep(space.gradient_codecs, 2);
  keep(space.all_gathers, 2);
  keep(space.reduce_scatters, 2);
  std::ranges::shuffle(space.hpz_sizes, generator);
  return space;
}

config::TrainConfig some_base(std::mt19937& generator, const comm::Topology& topology) {
  config::TrainConfig config = base();
  config.model.name = one_of<std::string>(generator, {"gpt", "llama"});
  config.model.hidden_size = one_of<std::size_t>(generator, {96, 256});
  config.model.vocab_size = one_of<std::size_t>(generator, {0, kSearchedVocab});
  config.zero.reduce_bucket_size = one_of<std::size_t>(generator, {100'000, 10'000'000});
  config.zero.persistence_threshold = one_of<std::size_t>(generator, {0, 1000});
  config.train_batch_size =
      static_cast<std::size_t>(topology.world_size) * one_of<std::size_t>(generator, {1, 2, 6});
  return config;
}

// A row has the numbers of its configuration alone, whatever candidates share during the search.
TEST(Search, RowsHaveTheNumbersOfTheirRunsAlone) {
  std::mt19937 generator(7);
  std::size_t further_copies = 0;
  std::size_t many_micro_steps = 0;
  std::size_t hybrids = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const auto topology = planned_topology(one_of<std::size_t>(generator, {1, 2, 4}),
                                           one_of<std::size_t>(generator, {2, 4, 8}));
    const Cluster cluster =
        cluster_of(one_of(generator, {1e8, 1e9, 1e10}), one_of(generator, {1e10, 1e11}), 1e13);
    const config::TrainConfig config = some_base(generator, topology);
    const config::Machine machine = machine_of(topology);
    const SearchSpace space = some_of(whole_space(config, topology, machine), generator);
    SearchResult result = search(config, space, topology, machine, kSearchedVocab, {}, &cluster);
    std::ranges::shuffle(result.best, generator);
    result.best.resize(std::min<std::size_t>(result.best.size(), 12));
    for (const Candidate& row : result.best) {
      SCOPED_TRACE(testing::Message() << topology.describe() << ", trial " << trial << ", hpZ "
                                      << row.config.zero.hpz_partition_size << ", micro-steps "
                                      << row.config.gradient_accumulation_steps);
      expect_planned(row, topology);
      const StepTime time = step_time(alone(row, topology), cluster);
      EXPECT_EQ(row.seconds, time.seconds);
      // Every repeated micro-step takes as long as the simulated micro-steps.
      EXPECT_NEAR(time.seconds, time.timeline.seconds, 1e-6 * time.seconds);
      further_copies += row.config.zero.hpz_partition_size > 2 ? 1 : 0;
      many_micro_steps += row.config.gradient_accumulation_steps > 2 ? 1 : 0;
      hybrids += row.config.zero.shard_group_size > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(further_copies, 10U);
  EXPECT_GT(many_micro_steps, 10U);
  EXPECT_GT(hybrids, 2U);
}

/// A base of everything that weight differences read.
config::TrainConfig some_differences(std::mt19937& generator, const comm::Topology& topology) {
  config::TrainConfig config = some_base(generator, topology);
  zero::WeightDifferenceOptions& differences = config.zero.weight_differences;
  differences.codec = codec::parse_codec(one_of(generator, {"int4:128", "int3:64", "int8:256"}));
  differences.copy = one_of(generator, {zero::CopyDtype::compute, zero::CopyDtype::fp32});
  differences.refresh_interval = one_of<std::size_t>(generator, {0, 0, 1, 3});
  config.zero.hpz_device = one_of(generator, {zero::HpzDevice::device, zero::HpzDevice::cpu});
  config.zero.pipeline_depth = one_of<std::size_t>(generator, {1, 3});
  return config;
}

TEST(Search, RowsOfWeightDifferencesHaveTheNumbersOfTheirRunsAlone) {
  std::mt19937 generator(11);
  std::set<std::tuple<bool, bool, bool>> seen;  // stage 3, nodes of one rank, whole weights
  for (int trial = 0; trial < 80; ++trial) {
    const auto topology = planned_topology(one_of<std::size_t>(generator, {2, 3, 4}),
                                           one_of<std::size_t>(generator, {1, 2, 4}));
    Cluster cluster = cluster_of(one_of(generator, {1e8, 1e10}), 1e11, 1e13);
    cluster.host = {.link_rate = 1e9, .memory_rate = 1e11};
    const config::TrainConfig config = some_differences(generator, topology);
    const config::Machine machine = machine_of(topology);
    // Beside candidates without differences, with which they share what can be shared.
    SearchSpace space = some_of(whole_space(config, topology, machine), generator);
    if (trial % 2 == 0) space.stages = {3};  // where others beat it
    space.weights = {{codec::parse_codec("int8:256")},
                     {codec::parse_codec("int8:256"), config.zero.weight_differences.codec},
                     {codec::parse_codec("none"), config.zero.weight_differences.codec}};
    SearchResult result = search(config, space, topology, machine, kSearchedVocab, {}, &cluster);
    std::erase_if(result.best, [](const Candidate& candidate) {
      return !candidate.config.zero.weight_differences.enabled;
    });
    std::ranges::shuffle(result.best, generator);
    result.best.resize(std::min<std::size_t>(result.best.size(), 12));
    for (const Candidate& row : result.best) {
      SCOPED_TRACE(testing::Message() << topology.describe() << ", trial " << trial << ", stage "
                                      << row.config.zero.stage);
      expect_planned(row, topology);
      const PlannedRun run = alone(row, topology);
      EXPECT_EQ(row.seconds, step_seconds(run, cluster));
      seen.emplace(row.config.zero.stage == 3, topology.ranks_per_node == 1,
                   run.choice().whole_weights);
    }
  }
  for (const bool stage_3 : {false, true}) {
    for (const bool one_rank : {false, true}) {
      for (const bool whole : {false, true}) {
        EXPECT_TRUE(seen.contains({stage_3, one_rank, whole})) << stage_3 << one_rank << whole;
      }
    }
  }
}

/// Differences send least between nodes of what keeps 8 bits of a weight, at the stages that hold a
/// copy of all weights, and do not lower the bits that a limit counts.
TEST(Search, WeightDifferencesSendLeastBetweenNodes) {
  const comm::Topology topology = planned_topology(4, 2);
  const auto across = [](const Candidate& candidate) { return candidate.step.inter; };
  const auto searched_at = [&](int stage, bool differences) {
    config::TrainConfig config = base();
    const config::Machine machine = machine_of(topology);
    SearchSpace space = whole_space(config, topology, machine);
    space.stages = {stage};
    space.shard_groups = {zero::kAllRanks};
    std::erase_if(space.weights, [&](const WeightChoice& weights) {
      return weights.differences.has_value() && !differences;
    });
    return search(config, space, topology, machine, kSearchedVocab, {.weight_bits = 8});
  };
  for (const int stage : {1, 2, 3}) {
    const SearchResult with = searched_at(stage, true);
    const Candidate& best = std::ranges::min(with.best, {}, across);
    EXPECT_TRUE(best.config.zero.weight_differences.enabled) << stage;
    EXPECT_GE(best.weight_bits, 8);
    EXPECT_LT(across(best), 0.8 * static_cast<double>(across(std::ranges::min(
                                      searched_at(stage, false).best, {}, across))));
    EXPECT_EQ(best.config.zero.hpz_partition_size, stage == 3 ? 2U : 1U);
  }
  EXPECT_EQ(searched_at(0, true).possible, searched_at(0, false).possible);
}

TEST(Search, RefusesWhatItDoesNotSearchOver) {
  config::TrainConfig config = base();
  config.zero.adaptive_bits.values = zero::AdaptedValues::weights;
  EXPECT_THROW((void)searched(config, planned_topology(1, 2)), Error);
}

}  // namespace
}  // namespace zeropp::plan
