// ctest: name=config_options timeout=30 labels=sanitize
// The option table: every entry can be written and read back, and every wrong value is refused with
// a message that names the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "lib/base/error.hpp"
#include "lib/config/flag_names.hpp"
#include "lib/config/groups.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/other_names.hpp"
#include "tests/support/another_value.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::config {
namespace {

using test::another;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal_of_text(const std::string& text) {
  TrainConfig config;
  auto table = options(config);
  return refusal([&] { read_text(text, "x.json", table); });
}

/// {"a": {"b": value}} of path "a.b"; "a.0" becomes an array, filled up by `other`.
std::string document(const std::string& path, const std::string& value, const std::string& other) {
  if (path.ends_with(".0") || path.ends_with(".1")) {
    const std::string list =
        path.ends_with(".0") ? "[" + value + "," + other + "]" : "[" + other + "," + value + "]";
    return document(path.substr(0, path.size() - 2), list, "");
  }
  const auto dot = path.find('.');
  if (dot == std::string::npos) return "{\"" + path + "\":" + value + "}";
  return "{\"" + path.substr(0, dot) + "\":" + document(path.substr(dot + 1), value, other) + "}";
}

TEST(ConfigOptions, FlagsStandBehindTheKeysOfAMessage) {
  TrainConfig config;
  const auto table = options(config);
  const auto same = [&](const std::string& message) {
    EXPECT_EQ(with_flags(message, table), message);
  };
  EXPECT_EQ(with_flags("fp16.enabled and bf16.enabled: leave one out", table),
            "fp16.enabled and bf16.enabled: leave one out (flags: --fp16, --bf16)");
  EXPECT_EQ(with_flags("lower gradient_clipping.", table),
            "lower gradient_clipping. (flag: --clip-grad)");
  EXPECT_EQ(
      with_flags("zeropp.weight_codec (--weight-codec) needs zero_optimization.stage 3", table),
      "zeropp.weight_codec (--weight-codec) needs zero_optimization.stage 3 (flag: "
      "--zero-stage)");
  same("--lr: give more");
  same("of a seed, train_batch_sizes, my.bf16.enabled, bf16.enabled.too and zeropp.weight_codecs");
}

TEST(ConfigOptions, PathsAndFlagsAreUniqueAndDescribed) {
  TrainConfig config;
  const auto table = options(config);
  std::set<std::string> paths;
  std::set<std::string> flags;
  for (const auto& option : table) {
    EXPECT_TRUE(paths.insert(option.path).second) << option.path;
    EXPECT_TRUE(option.flag.starts_with("--")) << option.path;
    EXPECT_FALSE(option.help.empty()) << option.path;
    EXPECT_EQ(option.in_effect || (option.ruled_out && !option.why_ruled_out),
              !option.effect_needs.empty())
        << option.path;
  }
  for (const auto& flag : flags_of(table)) EXPECT_TRUE(flags.insert(flag).second) << flag;
}

TEST(ConfigOptions, OtherNamesAreOfOneOptionAndNoFlags) {
  TrainConfig config;
  const auto table = options(config);
  const auto flags = flags_of(table);
  // Flags of zpp_plan and zpp_kernels.
  const std::set<std::string_view> others{"--filter", "--model-preset", "--nodes",
                                          "--ranks-per-node"};
  std::set<std::string> seen(flags.begin(), flags.end());
  for (const OtherNames& row : other_names()) {
    const bool is_flag = row.here.starts_with("--") && row.here.find(' ') == std::string::npos;
    const bool is_own = std::ranges::find(flags, row.here) != flags.end();
    EXPECT_TRUE(!is_flag || is_own || others.contains(row.here)) << row.here;
    for (const std::string_view name : row.names) {
      EXPECT_FALSE(name.starts_with("-")) << row.here;
      const std::string_view of_flag = name.substr(0, name.find('='));
      EXPECT_EQ(of_flag.find('_'), std::string_view::npos) << row.here << " compares with dashes";
      if (of_flag != name) {
        EXPECT_THAT(flags, testing::Contains("--" + std::string(of_flag))) << row.here;
      } else if (is_own || !is_flag) {
        const bool elsewhere = !is_own && seen.contains("--" + std::string(name));
        EXPECT_TRUE(seen.insert("--" + std::string(name)).second || elsewhere)
            << row.here << ": " << name;
      }
    }
  }
}

TEST(ConfigOptions, EachIsInAGroup) {
  TrainConfig config;
  std::set<std::string> named;
  for (const auto& option : options(config)) {
    named.insert(group_of(option.path, option_groups()).name);
  }
  EXPECT_EQ(named.size(), option_groups().size());
  EXPECT_EQ(group_of("zero_optimization.stage", option_groups()).name, "sharding");
  EXPECT_EQ(group_of("zero_optimization.stage3_max_live_parameters", option_groups()).name,
            "communication");
  EXPECT_THROW((void)group_of("zeropp.other", option_groups()), std::logic_error);
}

TEST(ConfigOptions, CommonFlagsExist) {
  TrainConfig config;
  const auto flags = flags_of(options(config));
  for (const auto& flag : common_flags()) EXPECT_THAT(flags, testing::Contains(flag));
}

TEST(ConfigOptions, EveryOptionIsReadFromJsonAndFromText) {
  TrainConfig defaults;
  for (const auto& entry : options(defaults)) {
    SCOPED_TRACE(entry.path);
    const auto value = another(entry);
    TrainConfig config;
    auto table = options(config);
    const auto sibling = entry.path.find("betas") != std::string::npos ? "0.5" : "";
    read_text(document(entry.path, value.dump(), sibling), "x.json", table);
    for (const auto& option : table) {
      if (option.path != entry.path) continue;
      EXPECT_TRUE(option.given);
      EXPECT_EQ(value_of(option), value);
    }
    TrainConfig from_flag;
    for (auto& option : options(from_flag)) {
      if (option.path != entry.path) continue;
      set_from_text(option, value.is_string() ? value.get<std::string>() : value.dump(),
                    option.flag);
      EXPECT_EQ(value_of(option), value);
      EXPECT_TRUE(option.given);
    }
  }
}

TEST(ConfigOptions, EveryOptionRefusesTheWrongTypeAndNamesItsKey) {
  TrainConfig defaults;
  for (const auto& entry : options(defaults)) {
    const bool text = std::holds_alternative<std::string*>(entry.field) ||
                      std::holds_alternative<EnumField>(entry.field) ||
                      std::holds_alternative<codec::CodecSpec*>(entry.field);
    for (const std::string wrong : {text ? "7" : "\"seven\"", "{\"a\":1}", "[1,2,3]"}) {
      const auto message = refusal_of_text(document(entry.path, wrong, "0.5"));
      EXPECT_THAT(message, AllOf(HasSubstr("x.json"), HasSubstr(entry.path))) << wrong;
    }
    if (!entry.path.starts_with("zeropp.")) continue;  // of DeepSpeed's keys null leaves them out
    EXPECT_THAT(refusal_of_text(document(entry.path, "null", "")), HasSubstr(entry.path));
  }
}

TEST(ConfigOptions, NumbersOutOfRangeAreRefused) {
  TrainConfig defaults;
  for (const auto& entry : options(defaults)) {
    const bool number = std::holds_alternative<std::size_t*>(entry.field) ||
                        std::holds_alternative<int*>(entry.field);
    if (!number) continue;
    for (const std::string wrong : {"-1", "-1e3", "1.5", "1e30", "18446744073709551616", "true"}) {
      EXPECT_THAT(refusal_of_text(document(entry.path, wrong, "")), HasSubstr(entry.path)) << wrong;
    }
  }
  EXPECT_THAT(refusal_of_text(R"({"zero_optimization":{"stage":4}})"), HasSubstr("from 0 to 3"));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"params":{"betas":[1.0,0.9]}}})"),
              HasSubstr("betas.0"));
  for (const std::string wrong : {"0", "1e-39", "1e39"}) {
    EXPECT_THAT(refusal_of_text(R"({"optimizer":{"params":{"eps":)" + wrong + "}}}"),
                AllOf(HasSubstr("optimizer.params.eps"), HasSubstr("from 1.17")));
  }
  for (const char* path :
       {"optimizer.params.lr", "optimizer.params.weight_decay", "gradient_clipping"}) {
    EXPECT_THAT(refusal_of_text(document(path, "3.5e38", "")),
                AllOf(HasSubstr(path), HasSubstr("e+38")));
  }
  EXPECT_THAT(refusal_of_text(R"({"gradient_accumulation_steps":4097})"),
              AllOf(HasSubstr("gradient_accumulation_steps"), HasSubstr("from 1 to 4096")));
  EXPECT_THAT(refusal_of_text(R"({"gradient_clipping":-0.1})"), HasSubstr("gradient_clipping"));
}

TEST(ConfigOptions, FlagsRefuseWhatIsNoNumber) {
  TrainConfig config;
  for (auto& option : options(config)) {
    if (option.flag != "--lr" && option.flag != "--num-layers") continue;
    for (const std::string wrong : {"nan", "inf", "-inf", "", "3x", "0x10", " 3", "1e999"}) {
      const auto message = refusal([&] { set_from_text(option, wrong, option.flag); });
      EXPECT_THAT(message, HasSubstr(option.flag)) << wrong;
    }
  }
}

TEST(ConfigOptions, RefusalsShowTheValueAsItWasGiven) {
  TrainConfig config;
  for (auto& option : options(config)) {
    if (option.path != "zeropp.node_size") continue;
    EXPECT_THAT(refusal([&] { set_from_text(option, "-1", option.flag); }),
                testing::EndsWith("not -1"));
  }
}

TEST(ConfigOptions, SizesMayEndInPowersOf1024) {
  std::size_t size = 0;
  Option option{.path = "size",
                .flag = "--size",
                .letter = "-s",
                .field = &size,
                .help = "A size",
                .unit = "bytes",
                .range = at_least(1),
                .binary_suffix = true};
  for (const auto& [text, value] : {std::pair<const char*, std::size_t>{"7", 7},
                                    {"3K", 3072},
                                    {"3k", 3072},
                                    {"0.5M", 524288},
                                    {"1.3K", 1331},  // whole bytes, as nccl-tests reads it
                                    {"2g", std::size_t{2} << 30U}}) {
    set_from_text(option, text, "--size");
    EXPECT_EQ(size, value) << text;
  }
  for (const auto& [text, remedy] :
       {std::pair{"1MB", "write 1M"}, {"2GiB", "write 2G"}, {"3kb", "write 3k"}}) {
    EXPECT_THAT(refusal([&] { set_from_text(option, text, "--size"); }), testing::EndsWith(remedy));
  }
  EXPECT_THAT(refusal([&] { set_from_text(option, "1XB", "--size"); }),
              testing::Not(HasSubstr("write")));
  for (const char* wrong : {"", "K", "1X", "1KB", "1 K", "1MK", "-1K", "0.1", "1e300G", "infK"}) {
    EXPECT_THAT(refusal([&] { set_from_text(option, wrong, "--size"); }),
                testing::AllOf(HasSubstr("--size"), HasSubstr("K, M, G")))
        << wrong;
  }
  option.binary_suffix = false;
  EXPECT_THAT(refusal([&] { set_from_text(option, "3K", "--size"); }), HasSubstr("3K"));
  EXPECT_THAT(flags_of({option}), testing::ElementsAre("--size", "-s"));
}

TEST(ConfigOptions, LargestFloatsAreLegal) {
  TrainConfig config;
  auto table = options(config);
  read_text(R"({"gradient_clipping":3.4e38,"gradient_accumulation_steps":4096,
                "optimizer":{"params":{"lr":3.4e38,"eps":1.2e-38}}})",
            "x.json", table);
  EXPECT_GT(static_cast<float>(config.optimizer.epsilon), 0.0F);
  EXPECT_EQ(config.gradient_accumulation_steps, 4096U);
}

TEST(ConfigOptions, WholeNumbersMayBeWrittenAsFloats) {
  TrainConfig config;
  auto table = options(config);
  read_text(R"({"zero_optimization":{"reduce_bucket_size":5e8,"stage":2.0}})", "x.json", table);
  EXPECT_EQ(config.zero.reduce_bucket_size, 500'000'000U);
  EXPECT_EQ(config.zero.stage, 2);
  read_text(R"({"zeropp":{"seed":18446744073709551615}})", "x.json", table);
  EXPECT_EQ(config.seed, 18446744073709551615U);
}

TEST(ConfigOptions, UnknownKeysNameTheirPathAndTheNearest) {
  EXPECT_THAT(refusal_of_text(R"({"zero_optimization":{"stag":3}})"),
              AllOf(HasSubstr("zero_optimization.stag "),
                    HasSubstr("nearest known: zero_optimization.stage)")));
  EXPECT_THAT(refusal_of_text(R"({"fp16":{"enable":true}})"),
              AllOf(HasSubstr("fp16.enable "), HasSubstr("fp16.enabled")));
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"model":{"layers":2}}})"),
              HasSubstr("zeropp.model.layers"));
  EXPECT_THAT(refusal_of_text(R"({"schedule":{"type":"WarmupLR"}})"),
              HasSubstr("unknown key schedule "));
  EXPECT_THAT(refusal_of_text(R"({"zero_optimization":3})"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"params":{"betas":[0.9]}}})"),
              HasSubstr("2 entries"));
  EXPECT_THAT(refusal_of_text(R"({"bf16":[true]})"), HasSubstr("be an object"));
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"weight_codec":"int9:256"}})"),
              HasSubstr("zeropp.weight_codec"));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"type":"AdmaW"}})"),
              AllOf(HasSubstr("optimizer.type"), HasSubstr("nearest: AdamW")));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"type":"Adafactor"}})"),
              AllOf(HasSubstr("one of "), Not(HasSubstr("nearest"))));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"type":"FusedAdam"}})"), HasSubstr("(give AdamW)"));
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"backend":"nccl"}})"),
              HasSubstr("(give cuda, and --transport nccl)"));
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"type":"SGD","params":{"momentun":0.9}}})"),
              HasSubstr("nearest known: optimizer.params.momentum"));
}

/// A line has room for what somebody wrote, and ends where it ends.
TEST(ConfigOptions, KeysAndValuesAreShownAsFarAsALineHasRoom) {
  const std::string longest(500000, 'k');
  for (const std::string& text :
       {"{\"zeropp\":{\"" + longest + "\":{\"a\":1}}}",
        R"({"bf16":{"enabled":")" + longest + "\"}}", R"({"optimizer":")" + longest + "\"}",
        R"({"gradient_allreduce_op":")" + longest + "\"}",
        R"({"zeropp":{"weight_codec":")" + longest + "\"}}",
        "{\"zeropp\":{\"" + longest + "\n\":1}}",
        R"({"zeropp":{"codec_schedule":[{")" + longest + R"(":1}]}})"}) {
    const std::string message = refusal_of_text(text);
    EXPECT_LT(message.size(), 1500U) << text.substr(0, 40);
    EXPECT_THAT(message, HasSubstr("...")) << text.substr(0, 40);
  }
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"a\u0000b":1}})"),
              HasSubstr("unknown key zeropp.a\\x00b (nearest"));
  EXPECT_THAT(refusal_of_text(R"({"a\u0000b":1,"a\u0000b":1})"),
              HasSubstr("a\\x00b appears twice"));
}

TEST(ConfigOptions, WhatIsNotOfThisTypeIsRefusedForIt) {
  EXPECT_THAT(refusal_of_text(R"({"optimizer":{"params":{"freeze_step":9},"type":"OneBitAdam"}})"),
              AllOf(HasSubstr("optimizer.type: must be one of "), HasSubstr("OneBitAdam")));
  EXPECT_THAT(refusal_of_text(R"({"scheduler":{"params":{"cycle_max_lr":9},"type":"OneCycle"}})"),
              AllOf(HasSubstr("scheduler.type: must be one of "), HasSubstr("OneCycle")));
}

TEST(ConfigOptions, DuplicatesAreRefused) {
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"seed":1},"gradient_clipping":1,"zeropp":{"seed":2}})"),
              HasSubstr("zeropp appears twice"));
  EXPECT_THAT(refusal_of_text(R"({"zeropp":{"seed":1,"model":{"num_layers":1},"seed":1}})"),
              HasSubstr("zeropp.seed appears twice"));
}

TEST(ConfigOptions, MalformedJsonNamesFileLineAndColumn) {
  EXPECT_THAT(refusal_of_text("{\n  \"a\": 1,\n  oops\n}"), testing::StartsWith("x.json:3:3:"));
  EXPECT_THAT(refusal_of_text("{\"a\" 1}"), testing::StartsWith("x.json:1:6:"));
  EXPECT_THAT(refusal_of_text(" \n"), testing::StartsWith("x.json: it is empty: "));
  EXPECT_THAT(refusal_of_text("{\"bf16\": {\n"),
              AllOf(testing::StartsWith("x.json:2:1:"), testing::EndsWith("close what is open")));
  EXPECT_THAT(refusal_of_text("{\"gradient_clipping\": NaN}"), testing::StartsWith("x.json:1:"));
  EXPECT_THAT(refusal_of_text("{\"gradient_clipping\": 1e999}"), HasSubstr("x.json"));
  EXPECT_THAT(refusal_of_text("[1]"), HasSubstr("JSON object"));
  EXPECT_THAT(refusal_of_text("{\"bf16\": {},\n \"gradient_clipping\": 1e999}"),
              testing::StrEq(
                  "x.json:2:23: malformed JSON: the number 1e999 is beyond what a double holds"));
  using namespace std::string_literals;
  for (const std::string& nul : {"{}\0\0"s, "{}\0{"s, "{\"bf16\"\0:{}}"s}) {
    EXPECT_THAT(refusal_of_text(nul),
                AllOf(testing::StartsWith("x.json:1:"), HasSubstr("a NUL byte")));
  }
  EXPECT_THAT(refusal_of_text(std::string(1000, '[')), HasSubstr("x.json"));
  EXPECT_THAT(refusal_of_text("{\"\xff\": 1}"), testing::StartsWith("x.json:1:"));
}

TEST(ConfigOptions, MissingFilesAreInputErrors) {
  TrainConfig config;
  auto table = options(config);
  const auto folder = std::filesystem::temp_directory_path();
  for (const auto& path : {folder, folder / "no-such-zeropp.json"}) {
    EXPECT_THAT(refusal([&] { read_file(path, table); }, ExitCode::io), HasSubstr(path.string()));
  }
}

TEST(ConfigOptions, EffectiveConfigurationReadsBackToTheSame) {
  for (const bool everything : {false, true}) {
    TrainConfig config;
    // 0 means "follows from the others" until the configuration is resolved.
    config.train_batch_size = config.train_micro_batch_size_per_gpu = 1;
    config.gradient_accumulation_steps = 1;
    auto table = options(config);
    if (everything) {
      for (auto& option : table) {
        if (option.path != "zero_optimization.stage") set_from_json(option, another(option), "x");
      }
    }
    const std::string written = canonical_json(table);
    TrainConfig again;
    auto copy = options(again);
    read_text(written, "effective", copy);
    EXPECT_EQ(canonical_json(copy), written);
    EXPECT_NO_THROW(check_effects(copy)) << "the effective configuration holds no idle option";
  }
}

TEST(ConfigOptions, CanonicalTextDependsOnEveryOptionAndNotOnKeyOrder) {
  TrainConfig defaults;
  const auto reference = options(defaults);
  std::set<std::string> texts{canonical_json(reference)};
  std::size_t in_effect = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    TrainConfig config;
    auto table = options(config);
    if (table[i].in_effect && !table[i].in_effect()) continue;
    ++in_effect;
    set_from_json(table[i], another(table[i]), "x");
    EXPECT_TRUE(texts.insert(canonical_json(table)).second) << table[i].path;
  }
  EXPECT_GT(in_effect, 30U);
  TrainConfig a;
  TrainConfig b;
  auto table_a = options(a);
  auto table_b = options(b);
  read_text(R"({"zeropp":{"seed":7,"train_steps":5},"gradient_clipping":1})", "a", table_a);
  read_text(R"({"gradient_clipping":1.0,"zeropp":{"train_steps":5e0,"seed":7}})", "b", table_b);
  EXPECT_EQ(canonical_json(table_a), canonical_json(table_b));
}

TEST(ConfigOptions, OptionsWithoutEffectAreRefused) {
  for (const std::string text :
       {R"({"zeropp":{"weight_codec":"int8:256"}})",
        R"({"zeropp":{"gradient_codec_intra":"int8:256"}})",
        R"({"zeropp":{"gradient_codec_inter":"int8:256"}})",
        R"({"zeropp":{"data":{"path":"x"}}})",
        R"({"zero_optimization":{"stage":2,"stage3_prefetch_bucket_size":1}})",
        R"({"zero_optimization":{"overlap_comm":false,"stage3_prefetch_bucket_size":1}})",
        R"({"zeropp":{"keep_weight_images":true}})",
        R"({"zero_optimization":{"stage":2,"zero_quantized_weights":true},
            "zeropp":{"keep_weight_images":true}})",
        R"({"zero_optimization":{"zero_quantized_weights":true},
            "zeropp":{"keep_weight_images":true,"weight_codec":"none"}})",
        R"({"zero_optimization":{"zero_quantized_weights":true},
            "zeropp":{"keep_weight_images":true,"weight_differences":true}})",
        R"({"zero_optimization":{"zero_quantized_weights":true,
            "offload_optimizer":{"device":"cpu"}},"zeropp":{"keep_weight_images":true}})",
        R"({"zeropp":{"hpz_device":"cpu"}})",
        R"({"zero_optimization":{"stage":2},"zeropp":{"hpz_device":"cpu"}})",
        R"({"zeropp":{"error_feedback":{"hops":"both"}}})",
        R"({"zero_optimization":{"zero_quantized_gradients":true},
            "zeropp":{"error_feedback":{"beta":0.5}}})",
        R"({"zero_optimization":{"zero_quantized_gradients":true},
            "zeropp":{"error_feedback":{"reset_period":5,"hops":"none"}}})",
        R"({"zeropp":{"evaluation_batches":3}})",
        R"({"zeropp":{"verify_action":"warn"}})",
        R"({"zeropp":{"backend":"host","gpu_sampling":2}})",
        R"({"optimizer":{"type":"SGD","params":{"betas":[0.9,0.99]}}})",
        R"({"optimizer":{"type":"SGD","params":{"eps":1e-8}}})",
        R"({"optimizer":{"type":"SGD","params":{"nesterov":true}}})",
        R"({"optimizer":{"type":"Lion","params":{"eps":1e-8}}})",
        R"({"optimizer":{"type":"Lion","params":{"momentum":0.9}}})",
        R"({"optimizer":{"params":{"momentum":0.9}}})",
        R"({"scheduler":{"params":{"warmup_num_steps":9}}})",
        R"({"scheduler":{"type":"WarmupLR","params":{"cos_min_ratio":0.1}}})",
        R"({"scheduler":{"type":"WarmupCosineLR","params":{"warmup_max_lr":0.1}}})",
        R"({"zero_optimization":{"stage":2,"stage3_max_live_parameters":1}})",
        R"({"zeropp":{"model":{"name":"quadratic","num_attention_heads":4}}})",
        R"({"zeropp":{"model":{"name":"quadratic","tied_head":true}}})",
        R"({"zeropp":{"model":{"recompute_interval":2}}})",
        R"({"zeropp":{"model":{"name":"quadratic","recompute_activations":true}}})",
        R"({"zeropp":{"model":{"num_layers":9,"cpu_checkpointing":true}}})",
        R"({"zeropp":{"model":{"name":"quadratic","num_layers":9,"cpu_checkpointing":true}}})",
        R"({"zeropp":{"model":{"num_layers":2,"recompute_activations":true,
            "cpu_checkpointing":true}}})",
        R"({"zeropp":{"model":{"num_layers":4,"recompute_activations":true,"recompute_interval":2,
            "cpu_checkpointing":true}}})",
        R"({"activation_checkpointing":{"cpu_checkpointing":true}})"}) {
    TrainConfig config;
    auto table = options(config);
    read_text(text, "x.json", table);
    EXPECT_THAT(refusal([&] { check_effects(table); }), HasSubstr("no effect")) << text;
  }
  for (const std::string text :
       {R"({"zero_optimization":{"stage3_prefetch_bucket_size":1}})",
        R"({"zero_optimization":{"zero_hpz_partition_size":2},"zeropp":{"hpz_device":"cpu"}})",
        R"({"zero_optimization":{"zero_quantized_weights":true},
            "zeropp":{"weight_differences":true,"hpz_device":"cpu"}})",
        R"({"zero_optimization":{"zero_quantized_weights":true},
            "zeropp":{"keep_weight_images":true}})",
        R"({"zero_optimization":{"zero_quantized_weights":true},
            "zeropp":{"keep_weight_images":true,"weight_codec":"none",
            "codec_schedule":[{"from_step":1,"weight_codec":"int4:64"}]}})",
        R"({"zeropp":{"model":{"recompute_activations":true,"recompute_interval":2}}})",
        R"({"zeropp":{"model":{"num_layers":5,"recompute_activations":true,"recompute_interval":2,
            "cpu_checkpointing":true}}})",
        R"({"activation_checkpointing":{"cpu_checkpointing":false}})",
        R"({"zeropp":{"backend":"cuda","gpu_sampling":2}})",
        R"({"optimizer":{"type":"Adam","params":{"eps":1e-8,"betas":[0.9,0.99],"lr":1}}})",
        R"({"optimizer":{"type":"Lion","params":{"betas":[0.9,0.99],"weight_decay":0.1}}})",
        R"({"optimizer":{"type":"SGD","params":{"momentum":0.9,"nesterov":true}}})",
        R"({"zeropp":{"evaluation_interval":2,"evaluation_batches":3}})",
        R"({"zeropp":{"verify_interval":2,"verify_action":"warn"}})",
        R"({"zeropp":{"model":{"num_attention_heads":4,"tied_head":true}}})",
        R"({"zeropp":{"data":{"source":"text","path":"x"}}})",
        R"({"zeropp":{"data":{"source":"llmc","path":"x","vocab_size":9}}})"}) {
    TrainConfig config;
    auto table = options(config);
    read_text(text, "x.json", table);
    EXPECT_NO_THROW(check_effects(table)) << text;
  }
}

}  // namespace
}  // namespace zeropp::config
