// ctest: name=config_deepspeed timeout=30 labels=sanitize
// Entries of a DeepSpeed configuration beside options: "auto", other names of options, and keys
// that change nothing here.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/deepspeed_reports.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "tests/support/resolving.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::config {
namespace {

using test::refusal;
using testing::AllOf;
using testing::HasSubstr;

/// The effective configuration of a file.
std::string effective(const std::string& text) {
  TrainConfig config;
  auto table = options(config);
  std::vector<Ignored> ignored = read_text(text, "x.json", table);
  leave_out_idle(table, ignored);
  resolve(config, table, machine(1, 1));
  return canonical_json(table);
}

std::string refusal_of(const std::string& text) {
  TrainConfig config;
  auto table = options(config);
  return refusal([&] { read_text(text, "x.json", table); });
}

/// The options of a file, without the options that have no effect.
struct Settled {
  explicit Settled(const std::string& text) {
    ignored = read_text(text, "x.json", table);
    lines = leave_out_idle(table, ignored);
    EXPECT_NO_THROW(check_effects(table)) << text;
  }
  /// All messages: the lines of keys that have their own line, and the line of the other keys.
  [[nodiscard]] std::string told() const {
    std::vector<std::string> all = lines;
    if (!ignored.empty()) all.push_back(ignored_line(ignored));
    return fmt::format("{}", fmt::join(all, "\n"));
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const Ignored& each : ignored) keys.push_back(each.key);
    return keys;
  }
  TrainConfig config = {};
  std::vector<Option> table = options(config);
  std::vector<Ignored> ignored = {};
  std::vector<std::string> lines = {};
};

TEST(ConfigDeepSpeed, AutoIsTakenWhereItHasAMeaning) {
  TrainConfig config;
  auto table = options(config);
  read_text(
      R"({"zero_optimization":{"reduce_bucket_size":"auto","stage3_prefetch_bucket_size":"auto"},
                "fp16":{"enabled":"auto"},"gradient_clipping":"auto","train_batch_size":"auto",
                "optimizer":{"params":{"lr":"auto","betas":"auto"}},
                "scheduler":{"type":"WarmupDecayLR",
                             "params":{"warmup_max_lr":"auto","warmup_num_steps":"auto",
                                       "total_num_steps":"auto"}},
                "zeropp":{"model":{"hidden_size":96},"train_steps":70}})",
      "x.json", table);
  config.optimizer.learning_rate = 0.25;  // as a flag would
  choose_automatic(table);
  EXPECT_EQ(config.zero.reduce_bucket_size, 96U * 96U);
  EXPECT_EQ(config.zero.prefetch_bucket_size, 8294U);
  EXPECT_EQ(config.optimizer.schedule.warmup_max_lr, 0.25);
  EXPECT_EQ(config.optimizer.schedule.warmup_num_steps, 2U);
  EXPECT_EQ(config.optimizer.schedule.total_num_steps, 70U);
  EXPECT_EQ(config.optimizer.beta1, TrainConfig().optimizer.beta1);
  EXPECT_FALSE(config.fp16);
  EXPECT_FALSE(is_given(table, "zero_optimization.reduce_bucket_size"));
  for (Option& option : table) {
    if (option.path == "zero_optimization.reduce_bucket_size") set_from_text(option, "77", "--x");
  }
  choose_automatic(table);
  EXPECT_EQ(config.zero.reduce_bucket_size, 77U);
}

/// DeepSpeed drops every "auto" of its sections, and takes its default.
TEST(ConfigDeepSpeed, AutoIsTakenEverywhere) {
  for (const char* text :
       {R"({"zero_optimization":{"stage":"auto","overlap_comm":"auto","sub_group_size":"auto",
            "max_live_parameters":"auto","stage3_max_reuse_distance":"auto","cpu_offload":"auto",
            "contiguous_gradients":"auto","mics_shard_size":"auto","zeropp_loco_param":"auto",
            "offload_optimizer":{"device":"auto","pin_memory":"auto"}}})",
        R"({"optimizer":{"type":"auto","params":"auto"},"scheduler":"auto","amp":"auto",
            "fp16":{"loss_scale":"auto"},"bfloat16":{"enabled":"auto"},"steps_per_print":"auto",
            "aio":{"block_size":"auto"},"tensor_parallel":{"autotp_size":"auto"},"fp8":"auto"})"}) {
    const Settled settled(text);
    EXPECT_EQ(canonical_json(settled.table), canonical_json(Settled("{}").table)) << text;
  }
  EXPECT_THAT(refusal_of(R"({"zeropp":"auto"})"), HasSubstr("zeropp must be an object"));
  EXPECT_THAT(refusal_of(R"({"zeropp":{"seed":"auto"}})"), HasSubstr("zeropp.seed"));
}

TEST(ConfigDeepSpeed, NamesOfTheOverviewSetTheirOptions) {
  TrainConfig config;
  auto table = options(config);
  EXPECT_TRUE(read_text(R"({"zeropp":{"quantize_weights":true,"quantize_gradients":true,
                               "secondary_group_size":4,"hierarchical_partition":true,
                               "weight_quantization_bits":6,"block_size":64,
                               "use_error_feedback":true},"steps_per_print":7})",
                        "x.json", table)
                  .empty());
  EXPECT_NO_THROW(check_effects(table));
  EXPECT_TRUE(config.zero.quantized_weights && config.zero.quantized_gradients);
  EXPECT_EQ(config.zero.hpz_partition_size, 4U);
  EXPECT_EQ(codec::to_string(config.zero.weight_codec), "int6:64");
  EXPECT_EQ(codec::to_string(config.zero.gradient_codec_intra), "int4:64");
  EXPECT_EQ(codec::to_string(config.zero.gradient_codec_inter), "int4:64");
  EXPECT_EQ(config.zero.error_feedback.hops, zero::FeedbackHops::both);
  EXPECT_EQ(config.log_interval, 7U);
}

TEST(ConfigDeepSpeed, OtherNamesOfAnOptionSayTheSame) {
  const auto own = [](const std::string& zero, const std::string& zeropp) {
    return R"({"zero_optimization":{)" + zero + R"(},"zeropp":{)" + zeropp + "}}";
  };
  for (const auto& [text, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {own(R"("zero_quantized_weights":true)", R"("quantize_weights":false)"),
            {"zeropp.quantize_weights", "zero_optimization.zero_quantized_weights", "keep one"}},
           {own(R"("zero_hpz_partition_size":1)", R"("hierarchical_partition":true)"),
            {"zeropp.hierarchical_partition", "zero_hpz_partition_size", "keep one"}},
           {own(R"("zero_hpz_partition_size":4)", R"("hierarchical_partition":false)"),
            {"zeropp.hierarchical_partition", "keep one"}},
           {own("", R"("secondary_group_size":4,"hierarchical_partition":false)"),
            {"zeropp.hierarchical_partition", "keep one"}},
           {own(R"("zero_quantized_weights":true)",
                R"("weight_codec":"int8:256","weight_quantization_bits":4)"),
            {"zeropp.weight_quantization_bits", "zeropp.weight_codec", "int4:256", "int8:256"}},
           {own(R"("zero_quantized_gradients":true)",
                R"("gradient_codec_inter":"int4:128","block_size":64)"),
            {"zeropp.block_size", "zeropp.gradient_codec_inter"}},
           {own("", R"("quantize_weights":3)"), {"zeropp.quantize_weights", "true or false"}},
           {own("", R"("block_size":"64")"), {"zeropp.block_size", "whole number"}},
           {own("", R"("weight_quantization_bits":99)"),
            {"zeropp.weight_quantization_bits", "zeropp.weight_codec"}},
           {R"({"zero_optimization":{"max_live_parameters":1,"stage3_max_live_parameters":2}})",
            {"zero_optimization.max_live_parameters", "stage3_max_live_parameters", "keep one"}}}) {
    const std::string message = refusal_of(text);
    for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part)) << text;
  }
  TrainConfig config;
  auto table = options(config);
  read_text(own(R"("zero_hpz_partition_size":4,"zero_quantized_weights":true)",
                R"("hierarchical_partition":true,"secondary_group_size":4,"block_size":64,
                   "quantize_weights":true)"),
            "x.json", table);
  EXPECT_NO_THROW(check_effects(table)) << "gradients are not quantized, and have a block";
  EXPECT_EQ(config.zero.hpz_partition_size, 4U);
  TrainConfig by_node;
  auto other = options(by_node);
  read_text(own("", R"("hierarchical_partition":true)"), "x.json", other);
  choose_automatic(other);
  EXPECT_EQ(by_node.zero.hpz_partition_size, zero::kNodeOfRanks);
  TrainConfig idle;
  auto idle_table = options(idle);
  read_text(own("", R"("block_size":64)"), "x.json", idle_table);
  EXPECT_THAT(refusal([&] { check_effects(idle_table); }), HasSubstr("no effect"));
}

/// A file, the file without its keys that have no effect, and what the line says of them.
struct Idle {
  std::string text;
  std::string without;
  std::string said;
};

TEST(ConfigDeepSpeed, WhatHasNoEffectIsAsIfTheFileLeftItOut) {
  for (const auto& [text, without, said] : std::vector<Idle>{
           {R"({"fp16":{"enabled":"auto","loss_scale":64,"hysteresis":3}})", "{}",
            "ignored: "
            "fp16.loss_scale (it needs fp16.enabled); fp16.hysteresis (it needs fp16.enabled "
            "with fp16.loss_scale 0)"},
           {R"({"fp16":{"enabled":true,"loss_scale":64,"hysteresis":3,"min_loss_scale":4}})",
            R"({"fp16":{"enabled":true,"loss_scale":64}})",
            "ignored: "
            "fp16.hysteresis, fp16.min_loss_scale (it needs fp16.enabled with fp16.loss_scale "
            "0)"},
           {R"({"zero_optimization":{"stage":2,"stage3_max_reuse_distance":7,
                "stage3_param_persistence_threshold":"auto"}})",
            R"({"zero_optimization":{"stage":2}})",
            "ignored: "
            "zero_optimization.stage3_max_reuse_distance, "
            "zero_optimization.stage3_param_persistence_threshold (it needs "
            "zero_optimization.stage 3)"},
           {R"({"zero_optimization":{"stage":2,"zero_hpz_partition_size":"auto",
                "offload_param":{"device":"cpu","pin_memory":true}}})",
            R"({"zero_optimization":{"stage":2}})",
            "ignored: "
            "zero_optimization.zero_hpz_partition_size (it needs zero_optimization.stage 3); "
            "zero_optimization.offload_param.device (it needs zero_optimization.stage 3 with "
            "zero_optimization.offload_optimizer.device cpu or nvme and a ratio of 1); "
            "zero_optimization.offload_param.pin_memory (it "
            "needs "
            "zero_optimization.offload_param.device cpu or nvme)"},
           {R"({"zero_optimization":{"stage":0,"zero_quantized_weights":true}})",
            R"({"zero_optimization":{"stage":0}})",
            "ignored: "
            "zero_optimization.zero_quantized_weights (it needs zero_optimization.stage 1, 2 or "
            "3)"},
           {R"({"zero_optimization":{"sub_group_size":1e9,"offload_optimizer":{"device":"none",
                "pin_memory":true,"nvme_path":"/x"}},"aio":{"intra_op_parallelism":2}})",
            "{}",
            "ignored: "
            "zero_optimization.offload_optimizer.nvme_path (it needs "
            "zero_optimization.offload_optimizer.device nvme); "
            "zero_optimization.offload_optimizer.pin_memory, zero_optimization.sub_group_size (it "
            "needs "
            "zero_optimization.offload_optimizer.device cpu or nvme); "
            "aio.intra_op_parallelism (it needs zero_optimization.offload_optimizer.device or "
            "offload_param.device nvme)"},
           {R"({"optimizer":{"params":{"lr":0.5}},"scheduler":{"type":"WarmupLR",
                "params":{"warmup_max_lr":0.25}}})",
            R"({"scheduler":{"type":"WarmupLR","params":{"warmup_max_lr":0.25}}})",
            "optimizer.params.lr 0.5 is not used: the learning rate rises to 0.25, the given "
            "scheduler.params.warmup_max_lr, as in DeepSpeed: to train at 0.5, set "
            "scheduler.params.warmup_max_lr to 0.5 (--warmup-max-lr)"},
           {R"({"optimizer":{"params":{"lr":0.001}},"scheduler":{"type":"WarmupLR",
                "params":{"warmup_max_lr":0.25}}})",
            R"({"scheduler":{"type":"WarmupLR","params":{"warmup_max_lr":0.25}}})",
            "optimizer.params.lr 0.001 is not used: the learning rate rises to 0.25, the given "
            "scheduler.params.warmup_max_lr, as in DeepSpeed: to train at 0.001, set "
            "scheduler.params.warmup_max_lr to 0.001 (--warmup-max-lr)"},
           {R"({"optimizer":{"params":{"lr":1.2e-4}},"scheduler":{"type":"WarmupDecayLR",
                "params":{"total_num_steps":9}},"zero_optimization":{"stage":1,
                "mics_shard_size":2}})",
            R"({"scheduler":{"type":"WarmupDecayLR","params":{"total_num_steps":9}},
                "zero_optimization":{"stage":1}})",
            "optimizer.params.lr 0.00012 is not used: the learning rate rises to 0.001, the "
            "default of scheduler.params.warmup_max_lr with scheduler.type WarmupDecayLR, as in "
            "DeepSpeed: to train at 0.00012, set scheduler.params.warmup_max_lr to 0.00012 "
            "(--warmup-max-lr)\n"
            "ignored: zero_optimization.mics_shard_size (it needs "
            "zero_optimization.stage 3)"},
           {R"({"activation_checkpointing":{"cpu_checkpointing":true}})", "{}",
            "ignored: "
            "activation_checkpointing.cpu_checkpointing (it needs "
            "zeropp.model.recompute_activations in three blocks or more, for the device holds the "
            "inputs of two)"},
           {R"({"zero_optimization":{"stage":1,"mics_shard_size":2}})",
            R"({"zero_optimization":{"stage":1}})",
            "ignored: "
            "zero_optimization.mics_shard_size (it needs zero_optimization.stage 3)"},
           {R"({"zero_optimization":{"offload_optimizer":{"device":"cpu","pin_memory":true}}})",
            R"({"zero_optimization":{"offload_optimizer":{"device":"cpu","pin_memory":true}}})",
            ""}}) {
    const Settled settled(text);
    EXPECT_EQ(settled.told(), said);
    EXPECT_EQ(canonical_json(settled.table), canonical_json(Settled(without).table)) << text;
    TrainConfig defaults;
    for (const Option& option : options(defaults)) {
      const auto same = std::ranges::find(settled.table, option.path, &Option::path);
      EXPECT_TRUE(same->given || value_of(*same) == value_of(option)) << option.path;
    }
  }
}

TEST(ConfigDeepSpeed, NullIsAsIfTheFileLeftItOut) {
  const Settled settled(
      R"({"optimizer":null,"train_batch_size":null,"steps_per_print":null,
          "zero_optimization":{"offload_param":null,"cpu_offload":null,"overlap_comm":null}})");
  EXPECT_EQ(canonical_json(settled.table), canonical_json(Settled("{}").table));
  EXPECT_EQ(settled.told(), "");
  const Settled own(R"({"zeropp":null})");
  EXPECT_EQ(canonical_json(own.table), canonical_json(Settled("{}").table));
  EXPECT_THAT(refusal_of(R"({"zeropp":{"seed":null}})"), HasSubstr("zeropp.seed"));
  EXPECT_EQ(Settled(R"({"optimiser":null})").keys(), std::vector<std::string>{"optimiser"});
}

/// Flags, the file's `zeropp` object, and arguments that DeepSpeed's constructors refuse too.
TEST(ConfigDeepSpeed, WhatHasNoEffectAndIsNotDeepSpeedsToSayIsRefused) {
  for (const char* text : {R"({"zeropp":{"weight_codec":"int8:64"}})",
                           R"({"optimizer":{"type":"SGD","params":{"eps":1e-8}}})",
                           R"({"scheduler":{"type":"WarmupLR","params":{"cos_min_ratio":0.1}}})"}) {
    TrainConfig config;
    auto table = options(config);
    std::vector<Ignored> ignored = read_text(text, "x.json", table);
    EXPECT_THAT(leave_out_idle(table, ignored), testing::IsEmpty()) << text;
    EXPECT_THAT(ignored, testing::IsEmpty()) << text;
    EXPECT_THAT(refusal([&] { check_effects(table); }), HasSubstr("no effect")) << text;
  }
  TrainConfig config;
  auto table = options(config);
  std::vector<Ignored> ignored = read_text(R"({"fp16":{"loss_scale":64}})", "x.json", table);
  const auto typed = std::ranges::find(table, "fp16.loss_scale", &Option::path);
  set_from_text(*typed, "64", typed->flag);
  EXPECT_THAT(leave_out_idle(table, ignored), testing::IsEmpty());
  EXPECT_THAT(ignored, testing::IsEmpty());
  EXPECT_THAT(refusal([&] { check_effects(table); }), HasSubstr("fp16.loss_scale"));
}

/// Everything that is ignored stands in one line, by reasons.
TEST(ConfigDeepSpeed, WhatIsIgnoredIsToldOnce) {
  const Settled settled(
      R"({"wall_clock_breakdown":true,"tensorboard":{"enabled":true,"job_name":"x"},"seed":3,
          "communication_data_type":"int8","zero_optimization":{"contiguous_gradients":false,
          "stage":2,"sub_group_size":0,"stage3_max_live_parameters":1e9},"comms_config":{"a":1}})");
  EXPECT_EQ(settled.told(),
            "ignored: comms_config (DeepSpeed has no such key, the nearest is comms_logger); "
            "communication_data_type (gradients travel in the type of the weights, in 16 bits with "
            "bf16 or fp16, unless zero_optimization.zero_quantized_gradients compresses them); "
            "seed (DeepSpeed has no such key); tensorboard, wall_clock_breakdown (the trace has "
            "every step's times, bytes and memory, and the configuration); "
            "zero_optimization.contiguous_gradients (there is one implementation of each stage); "
            "zero_optimization.stage3_max_live_parameters (it needs zero_optimization.stage 3 with "
            "zero_optimization.overlap_comm or zero_optimization.stage3_max_reuse_distance); "
            "zero_optimization.sub_group_size (it needs "
            "zero_optimization.offload_optimizer.device cpu or nvme)");
}

/// All that is refused stands in one error, each with its remedy.
TEST(ConfigDeepSpeed, WhatIsRefusedIsToldAtOnce) {
  EXPECT_EQ(
      refusal_of(R"({"curriculum_learning":{"enabled":true},"gradient_clipping":"x",
                     "optimizer":{"type":"Lamb","params":{"max_coeff":1}},"zero_optimisation":{"stage":2},
                     "zero_optimization":{"zenflow":{"topk_ratio":0.1},"cpu_offload":3}})"),
      "x.json: 6 keys are refused: "
      "(1) curriculum_learning is refused: it would change what is trained, and "
      "is not built; disable it, or leave it out; "
      "(2) gradient_clipping: must be a finite number from 0 to 3.4028234663852886e+38, not \"x\"; "
      "(3) optimizer.type: must be one of Adam, AdamW, Lion, SGD, not \"Lamb\"; "
      "(4) unknown key zero_optimisation (nearest known: zero_optimization): correct its name, or "
      "leave it out; "
      "(5) zero_optimization.zenflow is refused: ZenFlow is not built; leave "
      "it "
      "out; "
      "(6) zero_optimization.cpu_offload must be true or false, not 3");
  EXPECT_THAT(refusal_of(R"({"amp":{"enabled":true}})"),
              testing::StrEq("x.json: amp is refused: fp16 and bf16 are the "
                             "mixed precisions that are built; disable it, or leave it out"));
}

/// A section may be turned on inside: compression_training has no switch of its own.
TEST(ConfigDeepSpeed, SectionsThatAreTurnedOnInsideAreRefused) {
  const char* const text = R"({"compression_training":{"weight_quantization":{"shared_parameters":
                               {"enabled":%},"different_groups":{}}}})";
  const auto with = [&](const char* value) {
    std::string filled = text;
    return filled.replace(filled.find('%'), 1, value);
  };
  EXPECT_THAT(refusal_of(with("true")), HasSubstr("compression_training"));
  EXPECT_EQ(Settled(with("false")).keys(), std::vector<std::string>{"compression_training"});
  EXPECT_THAT(refusal_of(R"({"sparse_attention":{"mode":"fixed","block":16}})"),
              HasSubstr("sparse_attention"));
}

/// Field names beside their aliases, old forms, and values at the end of DeepSpeed's ranges.
TEST(ConfigDeepSpeed, WhatDeepSpeedTakesIsTaken) {
  const std::string offload = R"("offload_optimizer":{"device":"cpu"})";
  for (
      const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
          {R"({"zero_optimization":{"prefetch_bucket_size":9,"param_persistence_threshold":8,
                "model_persistence_threshold":7,"max_live_parameters":6,"max_reuse_distance":5}})",
           R"({"zero_optimization":{"stage3_prefetch_bucket_size":9,
                "stage3_param_persistence_threshold":8,"stage3_model_persistence_threshold":7,
                "stage3_max_live_parameters":6,"stage3_max_reuse_distance":5}})"},
          {R"({"zero_optimization":true})", R"({"zero_optimization":{"stage":1}})"},
          {R"({"zero_optimization":false})", R"({"zero_optimization":{"stage":0}})"},
          {R"({"zero_optimization":{"sub_group_size":0,)" + offload + "}}",
           R"({"zero_optimization":{)" + offload + "}}"},
          {R"({"fp16":{"enabled":"True"},"gradient_accumulation_steps":"8","gradient_clipping":"1e0"})",
           R"({"fp16":{"enabled":true},"gradient_accumulation_steps":8,"gradient_clipping":1})"},
          {R"({"optimizer":{"type":"adamw"}})", R"({"optimizer":{"type":"AdamW"}})"},
          {R"({"optimizer":{"type":"LION"}})", R"({"optimizer":{"type":"Lion"}})"},
          {R"({"bfloat16":{"enabled":true}})", R"({"bf16":{"enabled":true}})"},
          {R"({"communication_data_type":"BF16","gradient_allreduce_op":"Mean"})", "{}"},
          {"{\n # one\n \"seed\": 1, // two\n /* three, */ \"fp16\": {\"enabled\": true,},\n}",
           R"({"fp16":{"enabled":true}})"}}) {
    EXPECT_EQ(effective(one), effective(other)) << one;
  }
}

/// DeepSpeed's Adam decays weights as AdamW does, unless adam_w_mode is false.
TEST(ConfigDeepSpeed, AdamOfAFileIsAdamWAsInDeepSpeed) {
  const auto type_of = [](const std::string& params, bool by_flag = false) {
    TrainConfig config;
    auto table = options(config);
    read_text(R"({"optimizer":{)" + std::string(by_flag ? "" : R"("type":"Adam",)") +
                  R"("params":{"weight_decay":0.1)" + params + "}}}",
              "x.json", table);
    for (Option& option : table) {
      if (by_flag && option.path == "optimizer.type") set_from_text(option, "adam", option.flag);
    }
    resolve(config, table, machine(1, 1));
    EXPECT_EQ(effective(canonical_json(table)), canonical_json(table));
    return config.optimizer.type;
  };
  EXPECT_EQ(type_of(""), "AdamW");
  EXPECT_EQ(type_of(R"(,"adam_w_mode":true)"), "AdamW");
  EXPECT_EQ(type_of(R"(,"adam_w_mode":false)"), "Adam");
  EXPECT_EQ(type_of("", true), "Adam");
  EXPECT_EQ(type_of(R"(,"adam_w_mode":true)", true), "AdamW");
}

/// DeepSpeed reads no unknown key. One that comes near to a key that matters, or that stands in the
/// wrong section, may be a mistake; nobody misses any other.
TEST(ConfigDeepSpeed, UnknownKeysAreRefusedWhereTheyMayBeMistakes) {
  for (const auto& [text, meant] : std::vector<std::pair<std::string, std::string>>{
           {R"({"zero_optimization":{"stage3_max_live_params":5}})", "stage3_max_live_parameters"},
           {R"({"zero_optimization":{"zero_quantised_weights":true}})", "zero_quantized_weights"},
           {R"({"zero_optimization":{"Stage":2}})", "zero_optimization.stage)"},
           {R"({"zero_optimization":{"overlap_com":false}})", "zero_optimization.overlap_comm)"},
           {R"({"optimiser":{"type":"AdamW"}})", "nearest known: optimizer)"},
           {R"({"optimizer":{"params":{"learning_rate":1}}})", "optimizer.params.lr"},
           {R"({"curriculum_leaning":{"enabled":true}})", "curriculum_learning"},
           {R"({"optimizer":{"lr":0.5}})", "move it to optimizer.params.lr"},
           {R"({"reduce_bucket_size":7})", "move it to zero_optimization.reduce_bucket_size"},
           {R"({"deepspeed":{"zero_optimization":{"stage":2}}})", "move it to zero_optimization"},
           {R"({"zero":{"stage":2}})", "zero_optimization"},
           {R"({"optimizer":{"type":"AdamW","scheduler":{"type":"WarmupLR"}}})",
            "move it to scheduler"},
           {R"({"zeropp":{"sead":2}})", "nearest known: zeropp.seed"}}) {
    EXPECT_THAT(refusal_of(text), AllOf(HasSubstr("unknown key "), HasSubstr(meant))) << text;
  }
  for (const auto& [text, key] : std::vector<std::pair<std::string, std::string>>{
           {R"({"fp8":{"enabled":true}})", "fp8"},
           {R"({"comms_config":{"verbose":false}})", "comms_config"},
           {R"({"monitor_config":{"csv_monitor":{"enabled":false}}})", "monitor_config"},
           {R"({"fp16":{"fp16_opt_level":"O2"}})", "fp16.fp16_opt_level"},
           {R"({"bf16":{"loss_scale":0}})", "bf16.loss_scale"},
           {R"({"zero_optimization":{"cpu_offload_params":false}})",
            "zero_optimization.cpu_offload_params"},
           {R"({"zero_optimization":{"zero_quantised_weights":false}})",
            "zero_optimization.zero_quantised_weights"}}) {
    EXPECT_EQ(Settled(text).keys(), std::vector<std::string>{key}) << text;
  }
}

/// Settings of the reports that concern a file on so many nodes of 8 ranks.
std::vector<std::string> concerned(const std::string& text, int nodes) {
  TrainConfig config;
  auto table = options(config);
  read_text(text, "x.json", table);
  resolve(config, table, machine(nodes, 8));
  std::vector<std::string> settings;
  for (const DeepSpeedReport& report : deepspeed_reports()) {
    EXPECT_FALSE(report.seen.empty() || report.versions.empty() || report.threads.empty());
    if (report.concerns(config, nodes)) settings.push_back(report.setting);
  }
  return settings;
}

TEST(ConfigDeepSpeed, ReportsConcernWhatTheyName) {
  const std::string qwz = R"({"zero_optimization":{"zero_quantized_weights":true},)";
  EXPECT_THAT(concerned("{}", 3), testing::IsEmpty());
  EXPECT_THAT(concerned(qwz + R"("bf16":{"enabled":true}})", 4),
              testing::ElementsAre("qwZ in bf16"));
  EXPECT_THAT(concerned(qwz + R"("fp16":{"enabled":true}})", 3),
              testing::ElementsAre("qwZ on a number of nodes that is no power of 2"));
  EXPECT_THAT(concerned(R"({"zero_optimization":{"zero_hpz_partition_size":8,
                            "offload_optimizer":{"device":"cpu"}}})",
                        4),
              testing::ElementsAre("hpZ with offload", "hpZ", "hpZ", "hpZ"));
  EXPECT_THAT(concerned(R"({"zero_optimization":{"mics_shard_size":8}})", 4),
              testing::ElementsAre("MiCS under Hugging Face or Lightning"));
}

TEST(ConfigDeepSpeed, WhatIsLeftOutIsToldWhereTheDefaultDiffers) {
  const auto told = [](const char* text) { return left_out_line(Settled(text).table); };
  EXPECT_EQ(told(R"({"train_micro_batch_size_per_gpu":1})"),
            "leaves out zero_optimization.stage (3 here, 0 in DeepSpeed): write what is meant");
  EXPECT_EQ(told(R"({"zero_optimization":{"stage":2},"optimizer":{"type":"Adam"}})"),
            "leaves out optimizer.params.betas (0.9 and 0.95 here, 0.9 and 0.999 in DeepSpeed): "
            "write what is meant");
  EXPECT_EQ(told(R"({"zero_optimization":{"stage":2},
                     "optimizer":{"type":"AdamW","params":{"betas":[0.9,0.95]}}})"),
            "");
  EXPECT_EQ(told(R"({"zero_optimization":{"stage":2},"optimizer":{"type":"SGD"}})"), "");
  EXPECT_EQ(told(R"({"zeropp":{"seed":1}})"), "") << "a file of ours";
}

TEST(ConfigDeepSpeed, ADotInANameDividesNothing) {
  for (const char* text : {R"({"zero_optimization.stage":2,"zero_optimization":{"stage":3}})",
                           R"({"zero_optimization":{"offload_param.device":"cpu"}})"}) {
    EXPECT_THAT(refusal_of(text), AllOf(HasSubstr("unknown key \""), HasSubstr("a dot"))) << text;
  }
  EXPECT_THAT(refusal_of(R"({"optimizer":{"params":{"betas":{"0":0.5}}}})"),
              HasSubstr("optimizer.params.betas must be a list of 2 entries"));
  EXPECT_THAT(refusal_of(R"({"optimizer":{"params":{"betas":[0.5]}}})"),
              HasSubstr("optimizer.params.betas must be a list of 2 entries"));
}

TEST(ConfigDeepSpeed, DeepSpeedsLocoIsErrorFeedback) {
  const auto read = [](const std::string& zero, const std::string& own) {
    TrainConfig config;
    auto table = options(config);
    read_text(R"({"zero_optimization":{"zero_quantized_gradients":true)" + zero + "}" + own + "}",
              "x.json", table);
    check_effects(table);
    return config.zero.error_feedback;
  };
  const auto loco =
      read(R"(,"zeropp_loco_param":{"err_beta":0.8,"reset_T":1024})", R"(,"zeropp":{"seed":3})");
  EXPECT_EQ(loco.hops, zero::FeedbackHops::both);
  EXPECT_EQ(loco.beta, 0.8);
  EXPECT_EQ(loco.reset_period, 1024U);
  EXPECT_EQ(loco.dtype, zero::FeedbackStorage::fp32);
  EXPECT_EQ(read(R"(,"zeropp_loco_param":null)", "").hops, zero::FeedbackHops::none);
  EXPECT_EQ(
      read(R"(,"zeropp_loco_param":null)", R"(,"zeropp":{"error_feedback":{"hops":"intra"}})").hops,
      zero::FeedbackHops::intra);
  for (const char* wrong : {"true", "{}", R"({"err_beta":0.8})", "[0.8,1024]",
                            R"({"err_beta":0.8,"reset_T":9,"more":1})"}) {
    EXPECT_THAT(refusal([&] { read(std::string(R"(,"zeropp_loco_param":)") + wrong, ""); }),
                AllOf(HasSubstr("zeropp_loco_param"), HasSubstr("err_beta and reset_T")));
  }
  EXPECT_THAT(refusal([&] {
                read(R"(,"zeropp_loco_param":{"err_beta":0.8,"reset_T":9})",
                     R"(,"zeropp":{"error_feedback":{"hops":"intra"}})");
              }),
              HasSubstr("keep one of them"));
  EXPECT_THAT(refusal([&] { read(R"(,"zeropp_loco_param":{"err_beta":1.0,"reset_T":9})", ""); }),
              HasSubstr("zeropp.error_feedback.beta"));
  EXPECT_THAT(refusal([&] {
                read(R"(,"zeropp_loco_param":{"err_beta":0.8,"reset_T":9})", R"(,"zeropp":3)");
              }),
              HasSubstr("zeropp must be an object"));
}

}  // namespace
}  // namespace zeropp::config
