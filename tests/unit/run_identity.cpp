// ctest: name=run_identity timeout=60 labels=sanitize
// Whether a run resumes from a checkpoint: every option is tried with another value, and either the
// checkpoint is refused or the option is in the list of options that may change.
#include "lib/train/run_identity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lib/config/options.hpp"
#include "lib/model/registry.hpp"
#include "tests/support/another_value.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::train {
namespace {

using nlohmann::json;
using test::refusal;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Options that may change from a checkpoint to the run that resumes from it, by
/// docs/howto/checkpoints.md: their paths, or the beginnings of their paths.
const std::vector<std::string> kMayChange{
    // where and how state is kept, sent and computed with
    "zero_optimization.", "zeropp.hpz_device", "zeropp.shard_group_size", "zeropp.error_feedback.",
    "zeropp.measure_quantization_error", "zeropp.all_gather_algorithm",
    "zeropp.reduce_scatter_algorithm", "zeropp.gradient_dtype", "zeropp.pipeline_depth",
    "zeropp.deterministic", "zeropp.offload_", "aio.", "bf16.", "fp16.", "zeropp.weight_",
    "zeropp.exact_", "zeropp.keep_weight_images", "zeropp.gradient_codec_", "zeropp.codec_schedule",
    "zeropp.adaptive_bits.", "zeropp.model.recompute_", "zeropp.model.cpu_checkpointing",
    // how the optimizer continues with it
    "optimizer.params.", "zeropp.decayed_parameters", "zeropp.moments", "gradient_clipping",
    "zeropp.update_in_backward", "scheduler.",
    // the data from here on; a warning says so where they change
    "train_", "gradient_accumulation_steps", "zeropp.seed", "zeropp.data.",
    // the machine, and the measured, printed and saved output
    "zeropp.backend", "zeropp.transport", "zeropp.copy_engines", "zeropp.rail_lanes",
    "zeropp.autotune_gemm", "zeropp.device_memory_limit", "zeropp.gpu_sampling", "zeropp.node_size",
    "zeropp.virtual_ranks", "zeropp.train_steps", "zeropp.evaluation_", "zeropp.log_",
    "zeropp.hash_parameters", "zeropp.verify_", "zeropp.checkpoint."};

bool may_change(const std::string& path) {
  return std::ranges::any_of(kMayChange,
                             [&](const std::string& begin) { return path.starts_with(begin); });
}

constexpr std::size_t kSourceVocab = 2;

json identity(const config::TrainConfig& config) {
  const model::Description description =
      model::describe_model(config.model, {.vocab_size = kSourceVocab});
  return identity_of(config, model::effective_vocab_size(config.model, kSourceVocab),
                     description.units);
}

/// One that makes a model, unlike test::another()'s for some.
json another_of_model(const config::Option& option) {
  if (option.path == "zeropp.model.name") return "llama";
  if (option.path == "zeropp.model.hidden_size") return 128;
  if (option.path == "zeropp.model.num_attention_heads") return 8;
  if (option.path == "zeropp.model.num_key_value_heads") return 2;
  if (option.path == "zeropp.model.head_dim") return 4;
  return test::another(option);
}

using Change = std::function<void(config::TrainConfig&)>;

/// The paths of options without which, from what `begin` makes of the defaults, a checkpoint would
/// be taken for one of another run.
std::vector<std::string> refused_from(const Change& begin) {
  config::TrainConfig reference;
  begin(reference);
  std::vector<std::string> refused;
  for (const auto& entry : config::options(reference)) {
    config::TrainConfig changed;
    begin(changed);
    auto table = config::options(changed);
    for (auto& option : table) {
      if (option.path == entry.path) {
        config::set_from_json(option, another_of_model(option), option.path);
      }
    }
    if (identity(changed) != identity(reference)) refused.push_back(entry.path);
  }
  return refused;
}

TEST(RunIdentity, EveryOptionIsOfTheIdentityOrMayChange) {
  const auto refused = refused_from([](config::TrainConfig&) {});
  EXPECT_THAT(refused, ElementsAre("optimizer.type", "zeropp.model.name", "zeropp.model.num_layers",
                                   "zeropp.model.hidden_size", "zeropp.model.num_attention_heads",
                                   "zeropp.model.num_key_value_heads", "zeropp.model.head_dim",
                                   "zeropp.model.ffn_hidden_size", "zeropp.model.norm_eps",
                                   "zeropp.model.seq_length", "zeropp.model.vocab_size",
                                   "zeropp.model.tied_head"));
  config::TrainConfig config;
  for (const auto& option : config::options(config)) {
    const bool is_refused = std::ranges::find(refused, option.path) != refused.end();
    if (option.in_effect && !option.in_effect()) continue;  // of another model
    EXPECT_NE(is_refused, may_change(option.path))
        << option.path << ": put it into identity_of(), or into the list of those that may change";
  }
}

TEST(RunIdentity, OptionsOfLlamaAreOfItsIdentity) {
  const auto refused =
      refused_from([](config::TrainConfig& config) { config.model.name = "llama"; });
  EXPECT_THAT(refused,
              testing::IsSupersetOf({"zeropp.model.add_qkv_bias", "zeropp.model.rope_theta"}));
}

TEST(RunIdentity, AMomentumIsThereOrNot) {
  const auto sgd = [](double momentum) {
    return [momentum](config::TrainConfig& config) {
      config.optimizer.type = "SGD";
      config.optimizer.momentum = momentum;
    };
  };
  EXPECT_THAT(refused_from(sgd(0)), testing::Contains("optimizer.params.momentum"));
  EXPECT_THAT(refused_from(sgd(0.5)), testing::Not(testing::Contains("optimizer.params.momentum")));
}

std::string refusal_of(const Change& saved, const Change& own) {
  config::TrainConfig there;
  config::TrainConfig here;
  saved(there);
  own(here);
  return refusal([&] { (void)require_same_run(identity(there), identity(here), "FOLDER"); });
}

TEST(RunIdentity, SizesThatTradePlacesAreOthers) {
  const auto sizes = [](std::size_t vocab, std::size_t length) {
    return [=](config::TrainConfig& config) {
      config.model.vocab_size = vocab;
      config.model.seq_length = length;
    };
  };
  EXPECT_THAT(refusal_of(sizes(272, 16), sizes(256, 32)),
              HasSubstr("FOLDER is of a run with --seq-length 16, and this one has 32: give that"));
  EXPECT_THAT(refusal_of(sizes(272, 32), sizes(256, 32)),
              HasSubstr("with --vocab-size 272, and this one has 256"));
}

TEST(RunIdentity, TheKeyAndBothValuesAreNamed) {
  const auto momentum = [](double value) {
    return [value](config::TrainConfig& config) {
      config.optimizer.type = "SGD";
      config.optimizer.momentum = value;
    };
  };
  EXPECT_THAT(refusal_of(momentum(0.9), momentum(0)),
              HasSubstr(R"(with --sgd-momentum "above 0", and this one has "0")"));
  EXPECT_THAT(refusal_of([](auto&) {}, [](auto& config) { config.model.tied_head = false; }),
              HasSubstr("with --tied-head true, and this one has false"));
}

/// The case of tensors is a model of the same options that a later version makes otherwise.
TEST(RunIdentity, EveryFieldThatIsChangedIsRefused) {
  const json own = identity({});
  EXPECT_THAT(require_same_run(own, own, "FOLDER"), ElementsAre());
  const json flat = own.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    json changed = flat;
    if (value.is_number()) {
      changed[pointer] = value.get<std::uint64_t>() + 1;
    } else {
      changed[pointer] = "another";
    }
    const std::string said =
        refusal([&] { (void)require_same_run(changed.unflatten(), own, "FOLDER"); });
    EXPECT_THAT(said, AllOf(HasSubstr("FOLDER is of a run with "), HasSubstr("and this one has ")))
        << pointer;
  }
  for (const auto& other : {json(), json(7), json::array()}) {
    EXPECT_THAT(refusal([&] { (void)require_same_run(other, own, "FOLDER"); }),
                HasSubstr("FOLDER"));
  }
}

TEST(RunIdentity, TensorsInAnotherOrderAreOthers) {
  const json own = identity({});
  const auto expect_other = [&](const std::function<void(json&)>& change, const char* part) {
    json saved = own;
    change(saved["tensors"]);
    EXPECT_THAT(refusal([&] { (void)require_same_run(saved, own, "FOLDER"); }), HasSubstr(part));
  };
  expect_other([](json& tensors) { std::swap(tensors[0], tensors[1]); },
               R"(number 0 ["embedding","wpe.weight",[64,64]], and this one has ["embedding")");
  expect_other([](json& tensors) { tensors.erase(tensors.size() - 1); }, "null, and this one has");
  expect_other(
      [](json& tensors) {
        tensors.push_back({"head", "more", {1}});
      },
      R"(["head","more",[1]], and this one has null)");
}

TEST(RunIdentity, AnEarlierVersionsIsJudgedByWhatItHasAndALaterOnesIsRefused) {
  const json own = identity({});
  json saved{
      {"model", "gpt"}, {"num-layers", 2}, {"num-attention-heads", 4}, {"optimizer", "AdamW"}};
  EXPECT_THAT(require_same_run(saved, own, "FOLDER"),
              ElementsAre("head-dim", "hidden-size", "norm-eps", "rope-theta", "seq-length",
                          "sgd-momentum", "tensors", "tied-head", "vocab-size"));
  saved["num-layers"] = 3;
  EXPECT_THAT(refusal([&] { (void)require_same_run(saved, own, "FOLDER"); }),
              HasSubstr("with --num-layers 3, and this one has 2"));
  json later = own;
  later["experts"] = 8;
  EXPECT_THAT(refusal([&] { (void)require_same_run(later, own, "FOLDER"); }),
              HasSubstr("with --experts 8, and this one has null"));
}

}  // namespace
}  // namespace zeropp::train
