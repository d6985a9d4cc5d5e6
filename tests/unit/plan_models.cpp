// ctest: name=plan_models labels=sanitize
// Models by name and from configurations of Hugging Face: sizes, parameters against the closed
// form, and what a configuration that cannot be planned is told.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/model/transformer_units.hpp"
#include "lib/plan/hf_config.hpp"
#include "lib/plan/hf_shape.hpp"
#include "lib/plan/model_presets.hpp"

namespace zeropp::plan {
namespace {

using nlohmann::json;

std::size_t parameters_of(const model::Options& model) {
  std::size_t sum = 0;
  for (const zero::Unit& unit : model::transformer_units(model, model.vocab_size)) {
    sum += unit.parameters();
  }
  return sum;
}

/// Tables of tokens and positions, 12 h^2 + 13 h a block, the last norm, and a head of its own.
std::size_t closed_form(const model::Options& model) {
  const std::size_t h = model.hidden_size;
  const std::size_t head = model.tied_head ? 0 : model.vocab_size * h;
  return (model.vocab_size + model.seq_length) * h + model.num_layers * (12 * h * h + 13 * h) +
         2 * h + head;
}

json gpt2() {
  return {{"n_layer", 12},       {"n_embd", 768},       {"n_head", 12},
          {"n_positions", 1024}, {"vocab_size", 50257}, {"n_inner", nullptr}};
}

json llama() {
  return {{"hidden_size", 4096},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"max_position_embeddings", 8192},
          {"vocab_size", 128256},
          {"intermediate_size", 14336},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false}};
}

std::string told(const json& object) {
  try {
    const HfModel read = parse_hf_config(object.dump(), "config.json");
    return describe_hf_model(read, read.model);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
}

TEST(PlanModels, PresetsHaveTheirParameters) {
  const std::vector<std::pair<const char*, double>> known{
      {"gpt2-124m", 0.1244e9}, {"gpt2-1.5b", 1.558e9}, {"gpt-125m", 0.125e9},
      {"gpt-350m", 0.356e9},   {"gpt-760m", 0.76e9},   {"gpt-1.3b", 1.315e9},
      {"gpt-2.7b", 2.65e9},    {"gpt-7b", 6.66e9},     {"gpt-13b", 12.85e9},
      {"gpt-18b", 18.45e9},    {"gpt-70b", 64.9e9},    {"gpt-175b", 174.6e9}};
  ASSERT_EQ(known.size(), model_presets().size());
  for (const auto& [name, parameters] : known) {
    SCOPED_TRACE(name);
    const model::Options& model = model_preset(name);
    EXPECT_EQ(model.hidden_size % model.num_attention_heads, 0U);
    EXPECT_EQ(parameters_of(model), closed_form(model));
    EXPECT_NEAR(static_cast<double>(parameters_of(model)) / parameters, 1, 0.01);
  }
  EXPECT_THROW((void)model_preset("gpt-8b"), Error);
}

TEST(PlanModels, KeysOfGpt2) {
  HfModel read = parse_hf_config(gpt2().dump(), "config.json");
  EXPECT_EQ(parameters_of(read.model), 124439808U);  // published
  EXPECT_EQ(read.model.num_layers, model_preset("gpt2-124m").num_layers);
  EXPECT_EQ(model::ffn_width(read.model), 4 * 768U);
  EXPECT_TRUE(read.model.tied_head);
  take_trainers(read.model);
  EXPECT_EQ(read.model.name, "gpt");
  EXPECT_FALSE(read.model.parts);
  // A table of positions for longer sequences than are trained.
  HfModel shorter = parse_hf_config(gpt2().dump(), "config.json");
  shorter.model.seq_length = 512;
  take_trainers(shorter.model);
  EXPECT_TRUE(shorter.model.parts);
  EXPECT_EQ(parameters_of(shorter.model), 124439808U);
}

TEST(PlanModels, KeysOfLlama) {
  HfModel read = parse_hf_config(llama().dump(), "config.json");
  EXPECT_EQ(read.model.num_layers, 32U);
  EXPECT_EQ(read.model.hidden_size, 4096U);
  EXPECT_EQ(read.model.num_attention_heads, 32U);
  EXPECT_EQ(read.model.num_key_value_heads, 8U);
  EXPECT_EQ(read.model.seq_length, 8192U);
  EXPECT_EQ(read.model.vocab_size, 128256U);
  EXPECT_EQ(read.model.ffn_hidden_size, 14336U);
  EXPECT_FALSE(read.model.tied_head);
  EXPECT_EQ(parameters_of(read.model), 8030261248U);  // published
  take_trainers(read.model);
  EXPECT_EQ(read.model.name, "llama");
  EXPECT_EQ(parameters_of(read.model), 8030261248U);
  for (const char* part : {"32 layers x 4096, 32 heads of 128 with 8 key-value heads",
                           "gated MLP of 14336", "no model_type, planned as llama"}) {
    EXPECT_NE(told(llama()).find(part), std::string::npos) << told(llama());
  }
}

TEST(PlanModels, DefaultsOfAClassAreTaken) {
  // A text_config without the values that transformers leaves out, because its class has them.
  const json wrapped = {{"model_type", "gemma3"},
                        {"text_config",
                         {{"model_type", "gemma3_text"},
                          {"hidden_size", 2560},
                          {"intermediate_size", 10240},
                          {"num_hidden_layers", 34}}}};
  const HfModel read = parse_hf_config(wrapped.dump(), "config.json");
  EXPECT_EQ(parameters_of(read.model), 3880263168U);
  EXPECT_EQ(read.model.vocab_size, 262208U);
  EXPECT_EQ(read.model.seq_length, kLongestUnasked);
  EXPECT_EQ(read.positions, 131072U);
  EXPECT_TRUE(read.model.tied_head);
}

TEST(PlanModels, ValuesCountAsTrueAsInPython) {
  const auto tied = [](const json& value) {
    json object = llama();
    object["tie_word_embeddings"] = value;
    return parse_hf_config(object.dump(), "config.json").model.tied_head;
  };
  for (const json& value : {json(true), json(1), json(0.5), json("no"), json({0})}) {
    EXPECT_TRUE(tied(value)) << value;
  }
  for (const json& value : {json(false), json(0), json(nullptr), json(""), json::array()}) {
    EXPECT_FALSE(tied(value)) << value;
  }
}

TEST(PlanModels, AnEmptyListOfBlocksWithExpertsNamesNone) {
  json mixed = llama();
  mixed["model_type"] = "mixtral";
  mixed["num_local_experts"] = 8;
  mixed["num_experts_per_tok"] = 2;
  mixed["moe_layers"] = json::array();
  EXPECT_EQ(parameters_of(parse_hf_config(mixed.dump(), "config.json").model), 8030261248U);
}

TEST(PlanModels, ExpertsAreCountedAndThoseOfOneTokenToo) {
  json mixed = llama();
  mixed["model_type"] = "mixtral";
  mixed["num_local_experts"] = 8;
  mixed["num_experts_per_tok"] = 2;
  const model::Options model = parse_hf_config(mixed.dump(), "config.json").model;
  const std::size_t expert = 3 * std::size_t{4096} * 14336;
  const std::size_t router = 8 * std::size_t{4096};
  const std::size_t rest = 8030261248 - 32 * expert + 32 * router;
  const model::ParameterCount count = model::transformer_parameters(model, model.vocab_size);
  EXPECT_EQ(count.all, rest + 32 * 8 * expert);
  EXPECT_EQ(count.all, parameters_of(model));
  EXPECT_EQ(count.active, rest + 32 * 2 * expert);
}

TEST(PlanModels, WhatCannotBePlannedIsRefused) {
  const auto expect = [](json object, const char* key, const json& value, const char* part) {
    SCOPED_TRACE(key);
    object[key] = value;
    EXPECT_NE(told(object).find(part), std::string::npos) << told(object);
  };
  EXPECT_NE(told(json::object()).find("hidden_size or n_embd or n_embed or d_model is missing"),
            std::string::npos);
  expect(gpt2(), "n_head", nullptr, "num_heads or attention_heads is missing");
  expect(gpt2(), "n_layer", 0, "n_layer must be a whole number");
  expect(llama(), "vocab_size", "many", "vocab_size must be a whole number");
  expect(llama(), "num_hidden_layers", 2.5, "num_hidden_layers must be a whole number");
  expect(llama(), "num_local_experts", 8,
         "a mixture of experts of an unknown model_type is not planned");
  expect(llama(), "head_dim", 64, "heads of 64");
  json mixed = llama();
  mixed["model_type"] = "mixtral";
  expect(mixed, "num_experts_per_tok", 0, "a token goes through 0 of 8 experts");
  json huge = llama();
  huge["num_hidden_layers"] = 2147483647;
  expect(huge, "hidden_size", 2147483640, "more parameters than can be counted");
}

}  // namespace
}  // namespace zeropp::plan
