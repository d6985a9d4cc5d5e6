// ctest: name=contract9_config_resolve timeout=30 labels=sanitize
// What a configuration becomes on a machine: `auto`, the batch triple, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/model/registry.hpp"

namespace zeropp::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Machine machine(int nodes, int ranks_per_node, int world = 0) {
  return {.world_size = world > 0 ? world : nodes * ranks_per_node,
          .node_count = nodes,
          .ranks_per_node = ranks_per_node,
          .gpus = false,
          .own_gpus = false,
          .rdma = false,
          .gpu_problem = "no GPU here",
          .all_gather = {{"direct"},
                         {"flat"},
                         {"native", false, false, true, true},
                         {"native-images"},
                         {"plain", false, false},
                         {"two-level", true},
                         {"unstable", false, true, false}},
          .reduce_scatter = {{"1-hop", false, true, true, false, true},
                             {"2-hop", true, true, true, false, true},
                             {"flat", false, false},
                             {"native", false, false, false, true},
                             {"ordered", false, false}},
          .typical_unit = model::typical_unit,
          .check_model = model::validate,
          .check_data = data::validate};
}

TrainConfig resolved(const std::string& text, const Machine& on) {
  TrainConfig config;
  auto table = options(config);
  read_text(text, "x.json", table);
  resolve(config, table, on);
  return config;
}

std::string refusal(const std::string& text, const Machine& on) {
  try {
    (void)resolved(text, on);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return "";
}

TEST(ConfigResolve, CopyEnginesWhereNcclHasThem) {
  Machine on = machine(1, 4);
  on.gpus = on.own_gpus = true;
  for (Algorithm& algorithm : on.all_gather) {
    algorithm.to_everyone = algorithm.name == "direct" || algorithm.hierarchical;
  }
  for (Algorithm& algorithm : on.reduce_scatter) algorithm.to_everyone = algorithm.feedback;
  const auto choice = [&](const std::string& own, const std::string& zero = "") {
    const TrainConfig c =
        resolved(R"({"zero_optimization": {)" + zero + R"(}, "zeropp": {)" + own + "}}", on);
    return c.copy_engines + " " + c.zero.all_gather_algorithm + " " +
           c.zero.secondary_gather_algorithm + " " + c.zero.reduce_scatter_algorithm;
  };
  const auto why = [&](const std::string& own) {
    return refusal(R"({"zeropp": {)" + own + "}}", on);
  };
  const std::string quantized = R"("stage": 3, "zero_quantized_weights": true)";
  EXPECT_EQ(choice(""), "off native native native") << "this NCCL has none";
  EXPECT_THAT(why(R"("copy_engines": "on")"), HasSubstr("NCCL 2.28.3"));
  on.copy_engines = true;
  EXPECT_EQ(choice(""), "on direct direct 1-hop");
  EXPECT_EQ(choice(R"("copy_engines": "off")"), "off native native native");
  EXPECT_EQ(choice(R"("pipeline_depth": 2)", quantized), "on direct direct flat");
  EXPECT_EQ(choice(R"("pipeline_depth": 2)"), "off flat direct flat") << "chunks are not in place";
  EXPECT_EQ(choice(R"("transport": "mpi")"), "off flat flat flat");
  EXPECT_THAT(why(R"("copy_engines": "on", "transport": "mpi")"), HasSubstr("needs the transport"));
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "flat",
                     "reduce_scatter_algorithm": "native")"),
              AllOf(HasSubstr("no effect"), HasSubstr("flat and native")));
  EXPECT_EQ(choice("", R"("stage": 1)"), "off native direct native") << "gradients that stay";
  EXPECT_EQ(choice("", R"("stage": 2)"), "on native direct 1-hop") << "weights that stay";
  EXPECT_EQ(choice("", R"("stage": 2, "zero_quantized_weights": true)"), "on direct direct 1-hop");
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "direct", "pipeline_depth": 4,
                     "reduce_scatter_algorithm": "native")"),
              HasSubstr("pipeline_depth 4"));
  on.node_count = 2;
  on.ranks_per_node = 2;
  EXPECT_EQ(choice(""), "on two-level direct 2-hop");
  EXPECT_EQ(choice("", R"("stage": 3, "zero_hpz_partition_size": 4)"), "on two-level native 2-hop")
      << "an hpZ group of two nodes";
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "direct",
                     "reduce_scatter_algorithm": "flat")"),
              HasSubstr("on 2 nodes"));
  on.ranks_per_node = 1;
  on.node_count = 4;
  EXPECT_THAT(why(R"("copy_engines": "on")"), HasSubstr("nodes of several ranks"));
  on.ranks_per_node = 0;  // nodes of unequal size
  on.node_count = 2;
  EXPECT_EQ(choice(""), "off native native flat");
}

TEST(ConfigResolve, RailsHaveLanesOverSockets) {
  Machine on = machine(2, 2);
  on.gpus = on.own_gpus = true;
  const auto lanes = [&](const std::string& own) {
    return resolved(R"({"zeropp": {)" + own + "}}", on).rail_lanes;
  };
  EXPECT_EQ(lanes(""), 4U);
  EXPECT_EQ(lanes(R"("rail_lanes": 2)"), 2U);
  EXPECT_EQ(lanes(R"("transport": "mpi")"), 1U);
  const std::string flat = R"("all_gather_algorithm": "flat", "reduce_scatter_algorithm": "flat")";
  EXPECT_EQ(lanes(flat), 1U);
  EXPECT_THAT(refusal(R"({"zeropp": {"rail_lanes": 2, )" + flat + "}}", on),
              AllOf(HasSubstr("zeropp.rail_lanes 2"), HasSubstr("no effect")));
  on.rdma = true;
  EXPECT_EQ(lanes(""), 1U);
  EXPECT_EQ(lanes(R"("rail_lanes": 3)"), 3U);
  on = machine(2, 2);
  EXPECT_EQ(lanes(""), 1U) << "no GPU";
  EXPECT_THAT(refusal(R"({"zeropp": {"rail_lanes": 2}})", on), HasSubstr("no effect"));
}

TEST(ConfigResolve, AutoTakesGpusWhereEveryRankHasItsOwn) {
  Machine on = machine(1, 4);
  const auto chosen = [&](const std::string& text) {
    const TrainConfig config = resolved(text, on);
    return config.backend + " " + config.transport;
  };
  const auto with = [](const std::string& own) { return R"({"zeropp": {)" + own + "}}"; };
  EXPECT_EQ(chosen("{}"), "host mpi");
  on.gpus = true;
  EXPECT_EQ(chosen("{}"), "host mpi") << "ranks would share a GPU";
  EXPECT_EQ(chosen(with(R"("backend": "cuda", "transport": "mpi")")), "cuda mpi");
  on.own_gpus = true;
  EXPECT_EQ(chosen("{}"), "cuda nccl");
  EXPECT_EQ(chosen(with(R"("backend": "host")")), "host mpi");
  EXPECT_EQ(chosen(with(R"("backend": "cuda", "transport": "mpi")")), "cuda mpi");
  EXPECT_EQ(chosen(with(R"("transport": "mpi")")), "host mpi");
  EXPECT_EQ(chosen(with(R"("model": {"name": "quadratic"})")), "host mpi");
  EXPECT_THAT(refusal(with(R"("backend": "cuda", "model": {"name": "quadratic"})"), on),
              HasSubstr("no CUDA kernels"));
  EXPECT_THAT(refusal(with(R"("backend": "host", "transport": "nccl")"), on),
              HasSubstr("GPU memory only"));
}

TEST(ConfigResolve, AutoTakesTheVendorsCollectivesWhereTheyAreTheBaseline) {
  const auto chosen = [](const std::string& text, int nodes) {
    Machine on = machine(nodes, 4 / nodes);
    on.gpus = on.own_gpus = true;
    const auto zero = resolved(text, on).zero;
    return zero.all_gather_algorithm + " " + zero.reduce_scatter_algorithm;
  };
  const auto secondary = [](const std::string& own) {
    Machine on = machine(1, 4);
    on.gpus = on.own_gpus = true;
    return resolved(
               R"({"zero_optimization": {"zero_hpz_partition_size": 2}, "zeropp": {)" + own + "}}",
               on)
        .zero.secondary_gather_algorithm;
  };
  EXPECT_EQ(secondary(""), "native");
  EXPECT_EQ(secondary(R"("deterministic": true)"), "flat");
  EXPECT_EQ(secondary(R"("secondary_gather_algorithm": "direct")"), "direct");
  EXPECT_EQ(chosen("{}", 1), "native native");
  EXPECT_EQ(chosen("{}", 2), "two-level 2-hop");
  EXPECT_EQ(chosen(R"({"zeropp": {"deterministic": true}})", 1), "flat ordered");
  EXPECT_EQ(chosen(R"({"zeropp": {"pipeline_depth": 3}})", 1), "flat flat");
  EXPECT_EQ(chosen(R"({"zeropp": {"transport": "mpi", "backend": "cuda"}})", 1), "flat flat");
  EXPECT_EQ(chosen(R"({"zero_optimization": {"zero_quantized_weights": true,
                       "zero_quantized_gradients": true}})",
                   1),
            "direct 2-hop");
  const std::string qwz = R"({"zero_optimization": {"zero_quantized_weights": true},
                              "zeropp": {"pipeline_depth": 4)";
  EXPECT_EQ(chosen(qwz + "}}", 1), "native-images flat");
  EXPECT_EQ(chosen(qwz + "}}", 2), "two-level 2-hop");
  EXPECT_EQ(chosen(qwz + R"(, "deterministic": true}})", 1), "flat ordered");
  EXPECT_EQ(chosen(qwz + R"(, "transport": "mpi", "backend": "cuda"}})", 1), "flat flat");
}

TEST(ConfigResolve, AsksForGpusThatAreNotThere) {
  Machine on = machine(1, 4);
  for (const bool shared : {false, true}) {
    on.gpus = shared;
    try {
      (void)resolved(R"({"zeropp": {"backend": "cuda"}})", on);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_STREQ(error.what(), "no GPU here");
    }
  }
}

TEST(ConfigResolve, AutoFollowsTheTopology) {
  const auto algorithms = [](const std::string& text, const Machine& on) {
    const auto zero = resolved(text, on).zero;
    return zero.all_gather_algorithm + " " + zero.reduce_scatter_algorithm;
  };
  EXPECT_EQ(algorithms("{}", machine(2, 2)), "two-level 2-hop");
  EXPECT_EQ(algorithms("{}", machine(1, 4)), "flat flat");
  EXPECT_EQ(algorithms("{}", machine(4, 1)), "flat flat");
  EXPECT_EQ(algorithms("{}", machine(2, 0, 3)), "flat flat");
  EXPECT_EQ(algorithms(R"({"zeropp":{"deterministic":true}})", machine(2, 2)), "two-level ordered");
  const std::string qgz = R"({"zero_optimization":{"zero_quantized_gradients":true}})";
  EXPECT_EQ(algorithms(qgz, machine(2, 2)), "two-level 2-hop");
  EXPECT_EQ(algorithms(qgz, machine(1, 1)), "flat 2-hop");
}

TEST(ConfigResolve, BatchTriple) {
  const auto triple = [](const std::string& text) {
    const auto c = resolved(text, machine(2, 2));
    return std::vector<std::size_t>{c.train_batch_size, c.train_micro_batch_size_per_gpu,
                                    c.gradient_accumulation_steps, c.zero.accumulation_steps};
  };
  using testing::ElementsAre;
  EXPECT_THAT(triple("{}"), ElementsAre(4, 1, 1, 1));
  EXPECT_THAT(triple(R"({"train_batch_size":24})"), ElementsAre(24, 6, 1, 1));
  EXPECT_THAT(triple(R"({"train_micro_batch_size_per_gpu":3})"), ElementsAre(12, 3, 1, 1));
  EXPECT_THAT(triple(R"({"gradient_accumulation_steps":5})"), ElementsAre(20, 1, 5, 5));
  EXPECT_THAT(triple(R"({"train_batch_size":24,"train_micro_batch_size_per_gpu":2})"),
              ElementsAre(24, 2, 3, 3));
  EXPECT_THAT(triple(R"({"train_batch_size":24,"gradient_accumulation_steps":2})"),
              ElementsAre(24, 3, 2, 2));
  EXPECT_THAT(triple(R"({"train_micro_batch_size_per_gpu":3,"gradient_accumulation_steps":2})"),
              ElementsAre(24, 3, 2, 2));
  for (
      const std::string wrong :
      {R"({"train_batch_size":6})", R"({"train_batch_size":2})",
       R"({"train_batch_size":24,"gradient_accumulation_steps":5})",
       R"({"train_batch_size":24,"train_micro_batch_size_per_gpu":5})",
       R"({"train_batch_size":24,"train_micro_batch_size_per_gpu":2,"gradient_accumulation_steps":2})",
       R"({"train_micro_batch_size_per_gpu":1e19,"gradient_accumulation_steps":2})"}) {
    EXPECT_THAT(refusal(wrong, machine(2, 2)), HasSubstr("train_batch_size")) << wrong;
  }
}

TEST(ConfigResolve, DerivedAccumulationIsBounded) {
  const std::string text = R"({"train_micro_batch_size_per_gpu":1,"train_batch_size":)";
  EXPECT_EQ(resolved(text + "16384}", machine(2, 2)).gradient_accumulation_steps, 4096U);
  EXPECT_THAT(refusal(text + "16388}", machine(2, 2)),
              AllOf(HasSubstr("gradient_accumulation_steps"), HasSubstr("4097")));
}

TEST(ConfigResolve, FeaturesNeedAStage) {
  struct Feature {
    const char* text;
    int lowest;
  };
  for (const Feature& feature : {Feature{R"("zero_quantized_weights":true)", 1},
                                 Feature{R"("zero_hpz_partition_size":2)", 3},
                                 Feature{R"("zero_quantized_gradients":true)", 0}}) {
    for (const int stage : {0, 1, 2, 3}) {
      const std::string text =
          R"({"zero_optimization":{"stage":)" + std::to_string(stage) + "," + feature.text + "}}";
      if (stage < feature.lowest) {
        EXPECT_THAT(refusal(text, machine(2, 2)), HasSubstr("no effect")) << text;
      } else {
        EXPECT_NO_THROW((void)resolved(text, machine(2, 2))) << text;
      }
    }
  }
  EXPECT_NO_THROW((void)resolved(R"({"zero_optimization":{"stage":0,"zero_hpz_partition_size":1}})",
                                 machine(2, 2)));
}

TEST(ConfigResolve, OffloadedParametersNeedAnOffloadedOptimizerAtStageThree) {
  const auto text = [](int stage, const std::string& optimizer, const std::string& own = "") {
    return R"({"zero_optimization":{"stage":)" + std::to_string(stage) + "," + optimizer +
           R"("offload_param":{"device":"cpu"}})" + own + "}";
  };
  const std::string whole = R"("offload_optimizer":{"device":"cpu"},)";
  const std::string half = R"("offload_optimizer":{"device":"cpu","ratio":0.5},)";
  const std::string adapts = R"("zero_quantized_weights":true,)" + whole;
  EXPECT_NO_THROW((void)resolved(text(3, whole), machine(2, 2)));
  EXPECT_THAT(refusal(text(2, whole), machine(2, 2)), HasSubstr("no effect"));
  for (const std::string& optimizer : {std::string(), half}) {
    EXPECT_THAT(refusal(text(3, optimizer), machine(2, 2)),
                AllOf(HasSubstr("offload_param.device"), HasSubstr("ratio of 1")));
  }
  for (const std::string& read :
       {text(3, whole, R"(,"zeropp":{"measure_quantization_error":2})"),
        text(3, adapts, R"(,"zeropp":{"adaptive_bits":{"values":"weights"}})")}) {
    EXPECT_THAT(refusal(read, machine(2, 2)),
                AllOf(HasSubstr("offload_param.device"), HasSubstr("could read")));
  }
}

TEST(ConfigResolve, OffloadToFilesNeedsAPlaceForThem) {
  const auto text = [](const std::string& optimizer, const std::string& param,
                       const std::string& more = "") {
    return R"({"zero_optimization":{"stage":3,"offload_optimizer":{"device":"nvme")" + optimizer +
           R"(},"offload_param":{"device":"nvme")" + param + "}}" + more + "}";
  };
  const std::string path = R"(,"nvme_path":"/disk")";
  EXPECT_NO_THROW((void)resolved(text(path, path), machine(2, 2)));
  EXPECT_THAT(refusal(text("", path), machine(2, 2)), HasSubstr("offload_optimizer.nvme_path"));
  EXPECT_THAT(refusal(text(path, ""), machine(2, 2)), HasSubstr("offload_param.nvme_path"));
  EXPECT_THAT(refusal(text(path, path, R"(,"aio":{"block_size":5000})"), machine(2, 2)),
              AllOf(HasSubstr("aio.block_size 5000"), HasSubstr("8192")));
}

TEST(ConfigResolve, CodecsOfWeightsThatChangeNeedStageThree) {
  const auto text = [](int stage, const std::string& own) {
    return R"({"zero_optimization":{"stage":)" + std::to_string(stage) +
           R"(,"zero_quantized_weights":true},"zeropp":{)" + own + "}}";
  };
  for (const std::string own : {R"("codec_schedule":[{"from_step":1,"weight_codec":"int4:64"}])",
                                R"("adaptive_bits":{"values":"weights"})"}) {
    EXPECT_THAT(refusal(text(2, own), machine(2, 2)), HasSubstr("zero_optimization.stage 3"));
    EXPECT_NO_THROW((void)resolved(text(3, own), machine(2, 2)));
  }
}

TEST(ConfigResolve, SecondaryPartitionFitsTheNodes) {
  const auto text = [](int size) {
    return R"({"zero_optimization":{"zero_hpz_partition_size":)" + std::to_string(size) + "}}";
  };
  for (const int size : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(resolved(text(size), machine(4, 4)).zero.hpz_partition_size,
              static_cast<std::size_t>(size));
  }
  for (const int size : {3, 5, 6, 12, 32}) {
    EXPECT_THAT(refusal(text(size), machine(4, 4)), HasSubstr("choose 4")) << size;
  }
  EXPECT_THAT(refusal(text(2), machine(2, 0, 3)), HasSubstr("--node-size"));
}

TEST(ConfigResolve, AutomaticPartitionIsANode) {
  const std::string automatic = R"({"zero_optimization":{"zero_hpz_partition_size":"auto"}})";
  EXPECT_EQ(resolved(automatic, machine(2, 4)).zero.hpz_partition_size, 4U);
  EXPECT_EQ(resolved(automatic, machine(1, 1)).zero.hpz_partition_size, 1U);
  EXPECT_EQ(resolved(R"({"zeropp":{"hierarchical_partition":true}})", machine(3, 2))
                .zero.hpz_partition_size,
            2U);
  EXPECT_THAT(refusal(automatic, machine(2, 0, 5)), HasSubstr("zero_hpz_partition_size"));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"stage":2,"zero_hpz_partition_size":"auto"}})",
                      machine(2, 4)),
              HasSubstr("zero_hpz_partition_size"));
}

TEST(ConfigResolve, CodecsOfUnitsThatPersistDoNotChange) {
  const auto text = [](const std::string& own) {
    return R"({"zero_optimization":{"stage3_param_persistence_threshold":1000,
               "zero_quantized_weights":true},"zeropp":{)" +
           own + "}}";
  };
  for (const char* own : {R"("codec_schedule":[{"from_step":1,"weight_codec":"int4:64"}])",
                          R"("adaptive_bits":{"values":"weights"})"}) {
    EXPECT_THAT(refusal(text(own), machine(2, 2)),
                HasSubstr("stage3_param_persistence_threshold 1000"));
  }
  EXPECT_NO_THROW((void)resolved(text(""), machine(2, 2)));
}

std::string grouped(const std::string& size, const std::string& zero = "",
                    const std::string& own = "") {
  return R"({"zero_optimization":{)" + zero + R"(},"zeropp":{"shard_group_size":)" + size +
         (own.empty() ? "" : ",") + own + "}}";
}

TEST(ConfigResolve, ShardGroupsFitTheNodes) {
  for (const int size : {2, 4, 8}) {
    EXPECT_EQ(resolved(grouped(std::to_string(size)), machine(4, 4)).zero.shard_group_size,
              static_cast<std::size_t>(size));
  }
  for (const int size : {1, 3, 6, 12, 32}) {
    EXPECT_THAT(refusal(grouped(std::to_string(size)), machine(4, 4)),
                AllOf(HasSubstr("zeropp.shard_group_size"), HasSubstr("choose 4")))
        << size;
  }
  EXPECT_EQ(resolved(grouped("16"), machine(4, 4)).zero.shard_group_size, zero::kAllRanks);
  EXPECT_EQ(resolved(grouped("\"auto\""), machine(4, 4)).zero.shard_group_size, 4U);
  EXPECT_EQ(resolved(grouped("\"auto\""), machine(1, 4)).zero.shard_group_size, zero::kAllRanks);
  EXPECT_EQ(resolved(grouped("\"auto\""), machine(1, 1)).zero.shard_group_size, zero::kAllRanks);
  EXPECT_THAT(refusal(grouped("2"), machine(2, 0, 3)), HasSubstr("--node-size"));
}

TEST(ConfigResolve, ShardGroupsGoWithStage3Alone) {
  EXPECT_THAT(refusal(grouped("2", R"("stage":2)"), machine(2, 2)),
              AllOf(HasSubstr("zeropp.shard_group_size"), HasSubstr("zero_optimization.stage 3")));
  EXPECT_THAT(refusal(grouped("2", R"("zero_hpz_partition_size":2)"), machine(2, 2)),
              AllOf(HasSubstr("zeropp.shard_group_size 2"), HasSubstr("zero_hpz_partition_size")));
  EXPECT_THAT(refusal(grouped("2", "", R"("measure_quantization_error":1)"), machine(2, 2)),
              HasSubstr("measure_quantization_error"));
  EXPECT_THAT(refusal(grouped("2", R"("zero_quantized_weights":true)",
                              R"("adaptive_bits":{"values":"weights"})"),
                      machine(2, 2)),
              HasSubstr("adaptive_bits"));
}

TEST(ConfigResolve, AlgorithmsAreThoseOfAShardGroup) {
  const auto of = [](const std::string& size) {
    return resolved(grouped(size), machine(4, 2)).zero;
  };
  EXPECT_EQ(of("2").all_gather_algorithm, "flat");
  EXPECT_EQ(of("2").reduce_scatter_algorithm, "flat");
  EXPECT_EQ(of("4").all_gather_algorithm, "two-level");
  EXPECT_EQ(of("4").reduce_scatter_algorithm, "2-hop");
}

TEST(ConfigResolve, SumsOverShardGroupsAreTheHopAcrossNodes) {
  const std::string codecs =
      R"("reduce_scatter_algorithm":"1-hop","gradient_codec_intra":"int8:64",)"
      R"("gradient_codec_inter":"int4:64","error_feedback":{"hops":"both"})";
  const auto config =
      resolved(grouped("2", R"("zero_quantized_gradients":true)", codecs), machine(2, 2));
  EXPECT_EQ(codec::to_string(config.zero.gradient_codec_inter), "int4:64");
  EXPECT_EQ(config.zero.error_feedback.hops, "both");
}

TEST(ConfigResolve, SchedulesHaveOneHighestRate) {
  const auto rates = [](const std::string& type, const std::string& optimizer,
                        const std::string& params) {
    const TrainConfig c =
        resolved(R"({"optimizer":{"params":{)" + optimizer + R"(}},"scheduler":{"type":")" + type +
                     R"(","params":{)" + params + "}}}",
                 machine(1, 2));
    EXPECT_EQ(c.optimizer.learning_rate, c.optimizer.schedule.warmup_max_lr);
    return c.optimizer.schedule.warmup_max_lr;
  };
  const std::string total = R"("total_num_steps":9)";
  EXPECT_EQ(rates("WarmupLR", R"("lr":0.5)", ""), 0.5);
  EXPECT_EQ(rates("WarmupLR", "", R"("warmup_max_lr":0.25)"), 0.25);
  EXPECT_EQ(rates("WarmupLR", R"("lr":0.5)", R"("warmup_max_lr":"auto")"), 0.5);
  EXPECT_EQ(rates("WarmupDecayLR", "", total), 1e-3);
  EXPECT_EQ(rates("WarmupDecayLR", R"("lr":0.5)", total + R"(,"warmup_max_lr":"auto")"), 0.5);
  EXPECT_EQ(rates("WarmupDecayLR", R"("lr":0.5)", total + R"(,"warmup_max_lr":0.5)"), 0.5);
  const auto refused = [](const std::string& rest) {
    return refusal(R"({"optimizer":{"params":{"lr":0.5}},"scheduler":{)" + rest + "}}",
                   machine(1, 2));
  };
  EXPECT_THAT(refused(R"("type":"WarmupDecayLR","params":{"total_num_steps":9})"),
              AllOf(HasSubstr("optimizer.params.lr 0.5"), HasSubstr("warmup_max_lr 0.001")));
  EXPECT_THAT(refused(R"("type":"WarmupLR","params":{"warmup_max_lr":0.25})"),
              HasSubstr("make them equal"));
  EXPECT_THAT(refused(R"("type":"WarmupCosineLR")"), HasSubstr("total_num_steps"));
}

TEST(ConfigResolve, HierarchiesNeedEqualNodes) {
  const Machine unequal = machine(2, 0, 3);
  EXPECT_THAT(refusal(R"({"zeropp":{"all_gather_algorithm":"two-level"}})", unequal),
              AllOf(HasSubstr("two-level"), HasSubstr("--node-size")));
  EXPECT_THAT(refusal(R"({"zeropp":{"reduce_scatter_algorithm":"2-hop"}})", unequal),
              AllOf(HasSubstr("2-hop"), HasSubstr("--node-size")));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_gradients":true}})", unequal),
              AllOf(HasSubstr("--node-size"), HasSubstr("1-hop")));
}

TEST(ConfigResolve, CodecsNeedAnAlgorithmThatCarriesThem) {
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_gradients":true},
                          "zeropp":{"reduce_scatter_algorithm":"ordered"}})",
                      machine(2, 2)),
              HasSubstr("cannot carry"));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_weights":true},
                          "zeropp":{"all_gather_algorithm":"plain"}})",
                      machine(2, 2)),
              HasSubstr("cannot carry"));
  EXPECT_THAT(refusal(R"({"zeropp":{"deterministic":true,"reduce_scatter_algorithm":"native"}})",
                      machine(2, 2)),
              HasSubstr("choose ordered"));
  EXPECT_THAT(refusal(R"({"zeropp":{"deterministic":true,"all_gather_algorithm":"unstable"}})",
                      machine(2, 2)),
              HasSubstr("choose flat"));
}

TEST(ConfigResolve, APipelineNeedsAnAlgorithmThatHasOne) {
  const auto text = [](const std::string& gather, const std::string& reduce, int depth, int hpz) {
    return R"({"zero_optimization":{"zero_hpz_partition_size":)" + std::to_string(hpz) +
           R"(},"zeropp":{"all_gather_algorithm":")" + gather +
           R"(","reduce_scatter_algorithm":")" + reduce + R"(","pipeline_depth":)" +
           std::to_string(depth) + "}}";
  };
  EXPECT_THAT(refusal(text("native", "native", 2, 1), machine(2, 2)),
              AllOf(HasSubstr("zeropp.pipeline_depth 2"), HasSubstr("no effect")));
  EXPECT_NO_THROW((void)resolved(text("native", "native", 1, 1), machine(2, 2)));
  EXPECT_NO_THROW((void)resolved(text("flat", "native", 2, 1), machine(2, 2)));
  EXPECT_NO_THROW((void)resolved(text("native", "flat", 2, 1), machine(2, 2)));
  EXPECT_THAT(refusal(text("native", "native", 2, 2), machine(2, 2)), HasSubstr("no effect"));
}

TEST(ConfigResolve, AGatherInsideAGroupHasOneLevel) {
  EXPECT_THAT(refusal(R"({"zero_optimization": {"zero_hpz_partition_size": 2},
                          "zeropp": {"secondary_gather_algorithm": "two-level"}})",
                      machine(2, 2)),
              AllOf(HasSubstr("secondary_gather_algorithm two-level"), HasSubstr("choose flat")));
  EXPECT_THAT(refusal(R"({"zeropp": {"secondary_gather_algorithm": "flat"}})", machine(2, 2)),
              HasSubstr("zero_hpz_partition_size"));
}

TEST(ConfigResolve, AutotuningNeedsAGpuAndGivesUpTheSameBits) {
  Machine on = machine(1, 2);
  EXPECT_THAT(refusal(R"({"zeropp":{"autotune_gemm":true}})", on),
              AllOf(HasSubstr("zeropp.autotune_gemm"), HasSubstr("--backend cuda")));
  on.gpus = on.own_gpus = true;
  EXPECT_TRUE(resolved(R"({"zeropp":{"autotune_gemm":true}})", on).autotune_gemm);
  EXPECT_THAT(refusal(R"({"zeropp":{"autotune_gemm":true,"backend":"host"}})", on),
              HasSubstr("--backend host"));
  EXPECT_THAT(refusal(R"({"zeropp":{"autotune_gemm":true,"deterministic":true}})", on),
              AllOf(HasSubstr("zeropp.autotune_gemm"), HasSubstr("zeropp.deterministic")));
  EXPECT_NO_THROW((void)resolved(R"({"zeropp":{"autotune_gemm":false,"deterministic":true}})", on));
}

TEST(ConfigResolve, ReadingsOfGpusNeedGpus) {
  Machine on = machine(1, 2);
  const std::string text = R"({"zeropp":{"gpu_sampling":2}})";
  EXPECT_THAT(refusal(text, on), AllOf(HasSubstr("zeropp.gpu_sampling"), HasSubstr("no effect")));
  on.gpus = on.own_gpus = true;
  EXPECT_EQ(resolved(text, on).gpu_sampling, 2);
}

TEST(ConfigResolve, OneHopHasOneCodec) {
  const auto text = [](const std::string& more) {
    return R"({"zero_optimization":{"zero_quantized_gradients":true},
               "zeropp":{"reduce_scatter_algorithm":"1-hop","gradient_codec_intra":"int8:64")" +
           more + "}}";
  };
  EXPECT_EQ(resolved(text(""), machine(2, 2)).zero.gradient_codec_inter,
            codec::parse_codec("int8:64"));
  EXPECT_NO_THROW((void)resolved(text(R"(,"gradient_codec_inter":"int8:64")"), machine(2, 2)));
  EXPECT_THAT(refusal(text(R"(,"gradient_codec_inter":"int4:64")"), machine(2, 2)),
              HasSubstr("one hop"));
}

TEST(ConfigResolve, ErrorFeedbackIsInTheHopsThatThereAre) {
  const auto text = [](const std::string& hops, const std::string& algorithm) {
    return R"({"zero_optimization":{"zero_quantized_gradients":true},
               "zeropp":{"reduce_scatter_algorithm":")" +
           algorithm + R"(","error_feedback":{"hops":")" + hops + "\"}}}";
  };
  const auto hops = [&](const char* asked, const char* algorithm, const Machine& on) {
    return resolved(text(asked, algorithm), on).zero.error_feedback.hops;
  };
  EXPECT_EQ(hops("both", "2-hop", machine(2, 2)), "both");
  EXPECT_EQ(hops("intra", "2-hop", machine(2, 2)), "intra");
  EXPECT_EQ(hops("inter", "2-hop", machine(2, 2)), "inter");
  EXPECT_EQ(hops("both", "2-hop", machine(1, 4)), "intra");
  EXPECT_EQ(hops("both", "2-hop", machine(4, 1)), "inter");
  EXPECT_EQ(hops("both", "1-hop", machine(2, 2)), "intra");
  EXPECT_EQ(hops("both", "1-hop", machine(4, 1)), "intra");
  EXPECT_EQ(hops("none", "2-hop", machine(2, 2)), "none");
  for (const auto& [asked, algorithm, on] :
       {std::tuple{"inter", "2-hop", machine(1, 4)}, std::tuple{"intra", "2-hop", machine(4, 1)},
        std::tuple{"inter", "1-hop", machine(2, 2)}}) {
    EXPECT_THAT(refusal(text(asked, algorithm), on),
                AllOf(HasSubstr("zeropp.error_feedback.hops"), HasSubstr("no effect")));
  }
  Machine on = machine(2, 2);
  on.reduce_scatter = {{"ring"}};
  EXPECT_THAT(refusal(text("both", "ring"), on),
              AllOf(HasSubstr("zeropp.error_feedback.hops both"), HasSubstr("choose 2-hop")));
}

TEST(ConfigResolve, NamesAndShapesAreChecked) {
  const Machine on = machine(2, 2);
  EXPECT_THAT(refusal(R"({"zeropp":{"all_gather_algorithm":"two-levl"}})", on),
              HasSubstr("nearest: two-level"));
  EXPECT_THAT(refusal(R"({"zeropp":{"reduce_scatter_algorithm":"orderd"}})", on),
              HasSubstr("nearest: ordered"));
  EXPECT_THAT(refusal(R"({"zeropp":{"model":{"name":"gpd"}}})", on),
              HasSubstr("use one of encoder, gpt"));
  EXPECT_THAT(refusal(R"({"zeropp":{"model":{"hidden_size":10,"num_attention_heads":4}}})", on),
              HasSubstr("num_attention_heads 4"));
  EXPECT_NO_THROW(
      (void)resolved(R"({"zeropp":{"model":{"name":"quadratic","hidden_size":10}}})", on));
  EXPECT_THAT(refusal(R"({"zeropp":{"data":{"source":"text"}}})", on), HasSubstr("--data-path"));
  EXPECT_THAT(refusal(R"({"zeropp":{"data":{"source":"txt"}}})", on),
              HasSubstr("llmc, markov, megatron, text"));
}

TEST(ConfigResolve, PrecisionIsOneOfThree) {
  const Machine on = machine(2, 2);
  EXPECT_EQ(resolved("{}", on).zero.compute, Dtype::fp32);
  EXPECT_EQ(resolved(R"({"bf16":{"enabled":true}})", on).zero.compute, Dtype::bf16);
  // DeepSpeed's object as its guides write it.
  const TrainConfig half = resolved(
      R"({"fp16":{"enabled":true,"loss_scale":0,"loss_scale_window":500,"initial_scale_power":12,
          "hysteresis":4,"consecutive_hysteresis":true,"min_loss_scale":0.5}})",
      on);
  EXPECT_EQ(half.zero.compute, Dtype::fp16);
  const zero::LossScaleOptions& scale = half.zero.loss_scale;
  EXPECT_EQ(scale.fixed, 0);
  EXPECT_EQ(scale.window, 500U);
  EXPECT_EQ(scale.initial_power, 12U);
  EXPECT_EQ(scale.hysteresis, 4U);
  EXPECT_EQ(scale.minimum, 0.5);
  EXPECT_TRUE(scale.consecutive_hysteresis);

  EXPECT_THAT(refusal(R"({"fp16":{"enabled":true},"bf16":{"enabled":true}})", on),
              AllOf(HasSubstr("fp16.enabled"), HasSubstr("bf16.enabled")));
  EXPECT_THAT(refusal(R"({"fp16":{"loss_scale":8}})", on),
              AllOf(HasSubstr("fp16.loss_scale"), HasSubstr("fp16.enabled")));
  for (const char* key :
       {"loss_scale_window", "initial_scale_power", "hysteresis", "min_loss_scale"}) {
    const std::string path = std::string("fp16.") + key;
    EXPECT_THAT(
        refusal(std::string(R"({"fp16":{"enabled":true,"loss_scale":8,")") + key + "\":2}}", on),
        AllOf(HasSubstr(path), HasSubstr("fp16.loss_scale 0")));
  }
  EXPECT_THAT(
      refusal(R"({"fp16":{"enabled":true,"initial_scale_power":4,"min_loss_scale":17}})", on),
      AllOf(HasSubstr("fp16.min_loss_scale 17"), HasSubstr("16")));
}

TEST(ConfigResolve, ResolvedConfigurationResolvesToItself) {
  for (const std::string text :
       {R"({})", R"({"bf16":{"enabled":true},"train_batch_size":16,"zeropp":{"seed":9}})",
        R"({"fp16":{"enabled":true,"loss_scale":0,"hysteresis":3}})",
        R"({"fp16":{"enabled":true,"loss_scale":128}})",
        R"({"optimizer":{"params":{"lr":0.5}},"scheduler":{"type":"WarmupDecayLR",
            "params":{"total_num_steps":"auto","warmup_max_lr":"auto"}}})",
        R"({"zero_optimization":{"zero_quantized_gradients":true,"zero_quantized_weights":true,
            "zero_hpz_partition_size":2},"zeropp":{"reduce_scatter_algorithm":"1-hop",
            "gradient_codec_intra":"int8:64"}})",
        R"({"zero_optimization":{"zero_quantized_gradients":true},"zeropp":{"shard_group_size":2,
            "gradient_codec_inter":"int8:64","error_feedback":{"hops":"inter"}}})",
        R"({"zero_optimization":{"zero_quantized_gradients":true,
            "zeropp_loco_param":{"err_beta":0.8,"reset_T":1024}},
            "zeropp":{"reduce_scatter_algorithm":"1-hop"}})"}) {
    TrainConfig config;
    auto table = options(config);
    read_text(text, "x.json", table);
    resolve(config, table, machine(2, 2));
    const std::string effective = canonical_json(table);
    EXPECT_THAT(effective, testing::Not(HasSubstr("\"auto\"")));
    TrainConfig again;
    auto copy = options(again);
    read_text(effective, "effective", copy);
    resolve(again, copy, machine(2, 2));
    EXPECT_EQ(canonical_json(copy), effective);
    EXPECT_EQ(again.zero.compute, compute_dtype(config));
    EXPECT_EQ(again.zero.seed, config.seed);
  }
}

}  // namespace
}  // namespace zeropp::config
