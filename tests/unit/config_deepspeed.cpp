// ctest: name=config_deepspeed timeout=30 labels=sanitize
// What a DeepSpeed configuration may say beside options: "auto", other names of options, and keys
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
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::config {
namespace {

using test::refusal;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  TrainConfig config;
  auto table = options(config);
  return refusal([&] { read_text(text, "x.json", table); });
}

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
  for (const char* wrong :
       {R"({"zero_optimization":{"stage":"auto"}})", R"({"optimizer":{"params":"auto"}})",
        R"({"scheduler":"auto"})", R"({"zero_optimization":{"overlap_comm":"auto"}})"}) {
    EXPECT_THAT(refusal_of(wrong), HasSubstr("must be")) << wrong;
  }
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
           {R"({"optimizer":{"type":"Adam","params":{"adam_w_mode":true}}})",
            {"adam_w_mode", "optimizer.type", "keep one"}}}) {
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

/// What a file says, once what has no effect is left out.
struct Settled {
  explicit Settled(const std::string& text) {
    warnings = read_text(text, "x.json", table);
    idle = fmt::format("{}", fmt::join(leave_out_idle(table), "\n"));
    EXPECT_NO_THROW(check_effects(table)) << text;
  }
  TrainConfig config = {};
  std::vector<Option> table = options(config);
  std::vector<std::string> warnings = {};
  std::string idle = {};
};

/// A file, the file without its keys that have no effect, and what the line says of them.
struct Idle {
  std::string text;
  std::string without;
  std::string said;
};

TEST(ConfigDeepSpeed, WhatHasNoEffectIsAsIfTheFileLeftItOut) {
  for (const auto& [text, without, said] : std::vector<Idle>{
           {R"({"fp16":{"enabled":"auto","loss_scale":64,"hysteresis":3}})", "{}",
            "without effect, as if left out: "
            "fp16.loss_scale (for want of fp16.enabled); fp16.hysteresis (for want of fp16.enabled "
            "with fp16.loss_scale 0)"},
           {R"({"fp16":{"enabled":true,"loss_scale":64,"hysteresis":3,"min_loss_scale":4}})",
            R"({"fp16":{"enabled":true,"loss_scale":64}})",
            "without effect, as if left out: "
            "fp16.hysteresis, fp16.min_loss_scale (for want of fp16.enabled with fp16.loss_scale "
            "0)"},
           {R"({"zero_optimization":{"stage":2,"stage3_max_reuse_distance":7,
                "stage3_param_persistence_threshold":"auto"}})",
            R"({"zero_optimization":{"stage":2}})",
            "without effect, as if left out: "
            "zero_optimization.stage3_max_reuse_distance, "
            "zero_optimization.stage3_param_persistence_threshold (for want of "
            "zero_optimization.stage 3)"},
           {R"({"zero_optimization":{"stage":2,"zero_hpz_partition_size":"auto",
                "offload_param":{"device":"cpu","pin_memory":true}}})",
            R"({"zero_optimization":{"stage":2}})",
            "without effect, as if left out: "
            "zero_optimization.zero_hpz_partition_size, zero_optimization.offload_param.device "
            "(for "
            "want of zero_optimization.stage 3); zero_optimization.offload_param.pin_memory (for "
            "want of zero_optimization.offload_param.device cpu or nvme)"},
           {R"({"zero_optimization":{"stage":0,"zero_quantized_weights":true}})",
            R"({"zero_optimization":{"stage":0}})",
            "without effect, as if left out: "
            "zero_optimization.zero_quantized_weights (for want of zero_optimization.stage 1, 2 or "
            "3)"},
           {R"({"zero_optimization":{"sub_group_size":1e9,"offload_optimizer":{"device":"none",
                "pin_memory":true,"nvme_path":"/x"}},"aio":{"intra_op_parallelism":2}})",
            "{}",
            "without effect, as if left out: "
            "zero_optimization.offload_optimizer.nvme_path (for want of "
            "zero_optimization.offload_optimizer.device nvme); "
            "zero_optimization.offload_optimizer.pin_memory, zero_optimization.sub_group_size (for "
            "want of zero_optimization.offload_optimizer.device cpu or nvme); "
            "aio.intra_op_parallelism (for want of zero_optimization.offload_optimizer.device or "
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
            "without effect, as if left out: zero_optimization.mics_shard_size (for want of "
            "zero_optimization.stage 3)"},
           {R"({"activation_checkpointing":{"cpu_checkpointing":true}})", "{}",
            "without effect, as if left out: "
            "activation_checkpointing.cpu_checkpointing (for want of "
            "zeropp.model.recompute_activations in three blocks or more, for the device holds the "
            "inputs of two)"},
           {R"({"zero_optimization":{"stage":1,"mics_shard_size":2}})",
            R"({"zero_optimization":{"stage":1}})",
            "without effect, as if left out: "
            "zero_optimization.mics_shard_size (for want of zero_optimization.stage 3)"},
           {R"({"zero_optimization":{"offload_optimizer":{"device":"cpu","pin_memory":true}}})",
            R"({"zero_optimization":{"offload_optimizer":{"device":"cpu","pin_memory":true}}})",
            ""}}) {
    const Settled settled(text);
    EXPECT_EQ(settled.idle, said);
    EXPECT_TRUE(settled.warnings.empty()) << text;
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
  ASSERT_EQ(settled.warnings.size(), 1U);
  EXPECT_EQ(settled.warnings.front(),
            "x.json: null, as if left out: optimizer, steps_per_print, train_batch_size, "
            "zero_optimization.cpu_offload, zero_optimization.offload_param, "
            "zero_optimization.overlap_comm");
  EXPECT_THAT(refusal_of(R"({"optimiser":null})"), HasSubstr("unknown key optimiser"));
  EXPECT_THAT(refusal_of(R"({"zeropp":null})"), HasSubstr("zeropp must be an object"));
}

/// Flags, the file's `zeropp` object, and arguments that DeepSpeed's constructors refuse too.
TEST(ConfigDeepSpeed, WhatHasNoEffectAndIsNotDeepSpeedsToSayIsRefused) {
  for (const char* text : {R"({"zeropp":{"weight_codec":"int8:64"}})",
                           R"({"optimizer":{"type":"SGD","params":{"eps":1e-8}}})",
                           R"({"scheduler":{"type":"WarmupLR","params":{"cos_min_ratio":0.1}}})"}) {
    TrainConfig config;
    auto table = options(config);
    read_text(text, "x.json", table);
    EXPECT_THAT(leave_out_idle(table), testing::IsEmpty()) << text;
    EXPECT_THAT(refusal([&] { check_effects(table); }), HasSubstr("no effect")) << text;
  }
  TrainConfig config;
  auto table = options(config);
  read_text(R"({"fp16":{"loss_scale":64}})", "x.json", table);
  const auto typed = std::ranges::find(table, "fp16.loss_scale", &Option::path);
  set_from_text(*typed, "64", typed->flag);
  EXPECT_THAT(leave_out_idle(table), testing::IsEmpty());
  EXPECT_THAT(refusal([&] { check_effects(table); }), HasSubstr("fp16.loss_scale"));
}

TEST(ConfigDeepSpeed, KeysThatChangeNothingAreAcceptedWithOneWarningEach) {
  TrainConfig config;
  auto table = options(config);
  const auto warnings =
      read_text(R"({"wall_clock_breakdown":true,"tensorboard":{"enabled":true,"job_name":"x"},
                    "zero_optimization":{"contiguous_gradients":true,
                                         "offload_param":{"device":"none","buffer_size":5}}})",
                "x.json", table);
  ASSERT_EQ(warnings.size(), 4U);
  for (const std::string& warning : warnings) {
    EXPECT_THAT(warning, AllOf(HasSubstr("x.json: "), HasSubstr("changes nothing here")));
  }
  EXPECT_THAT(
      refusal_of(R"({"zero_optimization":{"contiguous_gradients":false}})"),
      AllOf(HasSubstr("contiguous_gradients false is refused"), HasSubstr("set it to true")));
  EXPECT_THAT(refusal_of(R"({"zero_optimization":{"offload_optimizer":{"super_offload":true}}})"),
              AllOf(HasSubstr("super_offload"), HasSubstr("is not built")));
  EXPECT_THAT(refusal_of(R"({"zero_optimization":{"allreduce_bucket_size":5e8}})"),
              HasSubstr("zero_optimization.reduce_bucket_size"));
  EXPECT_THAT(refusal_of(R"({"curriculum_learning":{"enabled":true}})"), HasSubstr("disable it"));
}

TEST(ConfigDeepSpeed, TypesOfCommunicationAreAcceptedWithWhatIsSent) {
  const DeepSpeedKey* const key = find_deepspeed_key("communication_data_type");
  ASSERT_NE(key, nullptr);
  for (const char* type : {"fp32", "fp16", "bf16"}) {
    EXPECT_THAT(accept(*key, type, "ds.json"), testing::HasSubstr("summed in fp32 and sent"))
        << type;
  }
  EXPECT_THROW(accept(*key, "int8", "ds.json"), Error);
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
