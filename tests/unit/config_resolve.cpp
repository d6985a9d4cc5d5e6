// ctest: name=contract9_config_resolve timeout=30 labels=sanitize
// The resolution of a configuration on a machine: `auto`, the batch triple, and every refusal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/resolving.hpp"

namespace zeropp::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConfigResolve, AutoTakesGpusWhereEveryRankHasItsOwn) {
  Machine on = machine(1, 4);
  const auto chosen = [&](const std::string& text) {
    const TrainConfig config = resolved(text, on);
    return fmt::format("{} {}", enum_name(*config.backend), enum_name(*config.transport));
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

TEST(ConfigResolve, AdaptiveBitsNeedSomeoneToSendTo) {
  for (const std::string values : {"weights", "gradients"}) {
    const std::string text = R"({"zero_optimization":{"zero_quantized_)" + values +
                             R"(":true},"zeropp":{"adaptive_bits":{"values":")" + values +
                             R"("}}})";
    EXPECT_THAT(refusal(text, machine(1, 1)),
                AllOf(HasSubstr("zeropp.adaptive_bits.values " + values),
                      HasSubstr("would have no effect on 1 rank")));
    EXPECT_EQ(enum_name(resolved(text, machine(1, 2)).zero.adaptive_bits.values), values);
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

TEST(ConfigResolve, ThePlaceOfHpzNeedsHpz) {
  const std::string hpz = R"({"zero_optimization":{"zero_hpz_partition_size":"auto"},)";
  const std::string text = hpz + R"("zeropp":{"hpz_device":"cpu"}})";
  EXPECT_EQ(resolved(text, machine(2, 2)).zero.hpz_device, zero::HpzDevice::cpu);
  EXPECT_THAT(refusal(text, machine(2, 1)),  // auto: the one rank of a node
              AllOf(HasSubstr("zeropp.hpz_device"),
                    HasSubstr("zero_hpz_partition_size above 1 or zeropp.weight_differences")));
  EXPECT_THAT(refusal(hpz + R"("zeropp":{"hpz_device":"nvme"}})", machine(2, 2)),
              AllOf(HasSubstr("zeropp.hpz_device"), HasSubstr("device"), HasSubstr("cpu")));
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

TEST(ConfigResolve, WeightDifferencesNeedACopyInEachOfSeveralNodes) {
  const auto text = [](int stage, const std::string& zero, const std::string& own = "") {
    return R"({"zero_optimization":{"stage":)" + std::to_string(stage) + zero +
           R"(},"zeropp":{"weight_differences":true)" + own + "}}";
  };
  const std::string qwz = R"(,"zero_quantized_weights":true)";
  const std::string hpz = R"(,"zero_hpz_partition_size":2)";
  const TrainConfig config = resolved(text(3, qwz + hpz), machine(2, 2));
  EXPECT_TRUE(config.zero.weight_differences.enabled);
  EXPECT_EQ(codec::to_string(config.zero.weight_differences.codec), "int4:128");
  EXPECT_THAT(refusal(text(0, qwz), machine(2, 2)), HasSubstr("set the stage to 1, 2 or 3"));
  EXPECT_THAT(refusal(text(3, hpz), machine(2, 2)), HasSubstr("zero_quantized_weights"));
  const auto* const partition = "needs zero_optimization.zero_hpz_partition_size 2";
  EXPECT_THAT(refusal(text(3, qwz), machine(2, 2)), HasSubstr(partition));
  EXPECT_THAT(refusal(text(3, qwz + R"(,"zero_hpz_partition_size":4)"), machine(2, 2)),
              HasSubstr(partition));
  EXPECT_TRUE(resolved(text(3, qwz), machine(4, 1)).zero.has_secondary());  // of each rank's own
  EXPECT_THAT(refusal(text(3, qwz + hpz), machine(4, 1)),
              HasSubstr("needs zero_optimization.zero_hpz_partition_size 1"));
  EXPECT_THAT(refusal(text(3, qwz + hpz), machine(1, 2)),
              AllOf(HasSubstr("several nodes"), HasSubstr("there is one, of 2 ranks"),
                    HasSubstr("--node-size below 2"), HasSubstr("--nodes above 1")));
  const auto with = [&](const std::string& own) {
    return refusal(text(3, qwz + hpz, "," + own), machine(2, 2));
  };
  EXPECT_NO_THROW(
      (void)resolved(text(3, qwz + hpz, R"(,"measure_quantization_error":1)"), machine(2, 2)));
  EXPECT_THAT(with(R"("adaptive_bits":{"values":"weights"})"), HasSubstr("no effect"));
  EXPECT_THAT(with(R"("all_gather_algorithm":"flat")"), HasSubstr("no effect"));
  EXPECT_NO_THROW(
      (void)resolved(text(3, qwz + hpz + R"(,"stage3_param_persistence_threshold":10)",
                          R"(,"all_gather_algorithm":"flat","update_in_backward":true)"),
                     machine(2, 2)));
  for (const char* own : {R"("weight_difference_codec":"int8:64")", R"("weight_copy_dtype":"fp32")",
                          R"("weight_refresh_interval":5)"}) {
    EXPECT_THAT(refusal(R"({"zero_optimization":{"stage":3)" + qwz + R"(},"zeropp":{)" + own + "}}",
                        machine(2, 2)),
                HasSubstr("zeropp.weight_differences"));
  }
}

TEST(ConfigResolve, WeightDifferencesBelowStageThreeGoToTheResidentWeights) {
  const auto text = [](int stage, const std::string& own, const std::string& more = "") {
    return R"({"zero_optimization":{"stage":)" + std::to_string(stage) +
           R"(,"zero_quantized_weights":true)" + more + R"(},"zeropp":{"weight_differences":true)" +
           own + "}" + R"(,"bf16":{"enabled":true}})";
  };
  for (const int stage : {1, 2}) {
    for (const Machine& place : {machine(1, 1), machine(1, 4), machine(2, 2), machine(3, 1)}) {
      const TrainConfig config = resolved(
          text(stage, R"(,"all_gather_algorithm":"flat","weight_copy_dtype":"compute")"), place);
      EXPECT_TRUE(config.zero.refreshes_differences());
      EXPECT_FALSE(config.zero.exchanges_differences());
      EXPECT_FALSE(config.zero.has_secondary());
    }
    EXPECT_THAT(refusal(text(stage, R"(,"weight_copy_dtype":"fp32")"), machine(2, 2)),
                HasSubstr("zeropp.weight_copy_dtype fp32 at zero_optimization.stage"));
    EXPECT_THAT(refusal(text(stage, "", R"(,"zero_hpz_partition_size":2)"), machine(2, 2)),
                HasSubstr("zero_hpz_partition_size"));
    EXPECT_THAT(refusal(text(stage, R"(,"hpz_device":"cpu")"), machine(2, 2)),
                HasSubstr("no effect"));
    EXPECT_NO_THROW((void)resolved(
        text(stage, R"(,"measure_quantization_error":1,"weight_refresh_interval":2)"),
        machine(2, 2)));
  }
  // Where training is in fp32 both types are that.
  EXPECT_NO_THROW(
      (void)resolved(R"({"zero_optimization":{"stage":2,"zero_quantized_weights":true},"zeropp":{)"
                     R"("weight_differences":true,"weight_copy_dtype":"fp32"}})",
                     machine(2, 2)));
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
    EXPECT_THAT(
        refusal(text(size), machine(4, 4)),
        AllOf(HasSubstr("has to divide the 4 ranks of a node"),
              HasSubstr("choose 1 or 2 or 4 or 8 or 16 (--zero-hpz-partition-size overrides it)")))
        << size;
  }
  EXPECT_THAT(refusal(text(3), machine(1, 4)),
              HasSubstr("choose 1 or 2 or 4 (--zero-hpz-partition-size overrides it)"));
  EXPECT_THAT(refusal(text(8), machine(2, 2)), HasSubstr("--zero-hpz-partition-size overrides it"));
  EXPECT_THAT(refusal(text(6), machine(6, 4)), HasSubstr("nodes of 6 ranks with --node-size 6"));
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

TEST(ConfigResolve, ShardGroupsFitTheNodes) {
  for (const int size : {2, 4, 8}) {
    EXPECT_EQ(resolved(grouped(std::to_string(size)), machine(4, 4)).zero.shard_group_size,
              static_cast<std::size_t>(size));
  }
  for (const int size : {1, 3, 6, 12, 32}) {
    EXPECT_THAT(refusal(grouped(std::to_string(size)), machine(4, 4)),
                AllOf(HasSubstr("zeropp.shard_group_size"), HasSubstr("4")))
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
  EXPECT_THAT(
      refused(R"("type":"WarmupDecayLR","params":{"total_num_steps":9})"),
      AllOf(HasSubstr("optimizer.params.lr 0.5"), HasSubstr("rises to 0.001, the default")));
  EXPECT_THAT(refused(R"("type":"WarmupLR","params":{"warmup_max_lr":0.25})"),
              HasSubstr("set scheduler.params.warmup_max_lr to 0.5"));
  EXPECT_THAT(refused(R"("type":"WarmupCosineLR")"), HasSubstr("total_num_steps"));
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

/// `transformers` has no class for the model: its file could not be read.
TEST(ConfigResolve, WeightsAreWrittenOfModelsThatTransformersHas) {
  const auto with = [](const std::string& model) {
    return R"({"zero_optimization":{"stage":3,"stage3_gather_16bit_weights_on_model_save":true},
               "zeropp":{"checkpoint":{"save":"folder"},"model":)" +
           model + "}}";
  };
  const Machine on = machine(1, 2);
  const char* const gpt2 = "GPT-2 has as many key-value heads as heads";
  EXPECT_THAT(refusal(with(R"({"num_key_value_heads":2})"), on), HasSubstr(gpt2));
  EXPECT_THAT(refusal(with(R"({"head_dim":24})"), on), HasSubstr(gpt2));
  EXPECT_NO_THROW((void)resolved(with(R"({"ffn_hidden_size":40,"head_dim":16})"), on));
  const std::string odd =
      R"({"name":"llama","hidden_size":50,"num_attention_heads":4,"head_dim":16)";
  EXPECT_THAT(refusal(with(odd + "}"), on), HasSubstr("a hidden size that its heads divide"));
  EXPECT_NO_THROW((void)resolved(with(odd + R"(,"add_qkv_bias":true})"), on));
}

TEST(ConfigResolve, ReadingsOfGpusNeedGpus) {
  Machine on = machine(1, 2);
  const std::string text = R"({"zeropp":{"gpu_sampling":2}})";
  EXPECT_THAT(refusal(text, on), AllOf(HasSubstr("zeropp.gpu_sampling"), HasSubstr("no effect")));
  on.gpus = on.own_gpus = true;
  EXPECT_EQ(resolved(text, on).gpu_sampling, 2);
}

TEST(ConfigResolve, NamesAndShapesAreChecked) {
  const Machine on = machine(2, 2);
  EXPECT_THAT(refusal(R"({"zeropp":{"all_gather_algorithm":"two-levl"}})", on),
              HasSubstr("nearest: two-level"));
  EXPECT_THAT(refusal(R"({"zeropp":{"reduce_scatter_algorithm":"orderd"}})", on),
              HasSubstr("nearest: ordered"));
  EXPECT_THAT(refusal(R"({"zeropp":{"model":{"name":"gpd"}}})", on),
              HasSubstr("use one of gpt, llama"));
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
