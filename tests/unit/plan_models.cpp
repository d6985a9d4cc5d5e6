// ctest: name=plan_models labels=sanitize
// Models by name and from configurations of Hugging Face: sizes, parameters against the closed
// form, and what a configuration that cannot be planned is told.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/model/transformer_units.hpp"
#include "lib/plan/hf_config.hpp"
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
    return parse_hf_config(object.dump(), "config.json").note;
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
  const HfModel read = parse_hf_config(gpt2().dump(), "config.json");
  EXPECT_EQ(parameters_of(read.model), 124439808U);  // published
  EXPECT_EQ(read.parameters, 124439808U);
  EXPECT_EQ(read.model.num_layers, model_preset("gpt2-124m").num_layers);
  EXPECT_EQ(model::mlp_width(read.model), 4 * 768U);
  EXPECT_TRUE(read.model.tied_head);
  EXPECT_NE(read.note.find("with as many (+0.000 %)"), std::string::npos) << read.note;
}

TEST(PlanModels, KeysOfLlama) {
  const HfModel read = parse_hf_config(llama().dump(), "config.json");
  EXPECT_EQ(read.model.num_layers, 32U);
  EXPECT_EQ(read.model.hidden_size, 4096U);
  EXPECT_EQ(read.model.num_attention_heads, 32U);
  EXPECT_EQ(read.model.seq_length, 8192U);
  EXPECT_EQ(read.model.vocab_size, 128256U);
  EXPECT_FALSE(read.model.tied_head);
  EXPECT_EQ(read.parameters, 8030261248U);  // published
  EXPECT_NEAR(static_cast<double>(parameters_of(read.model)) / 8030261248.0, 1, 1e-4);
  // 3 x 14336 instead of 2 x 14336, except for grouped heads and the table of positions.
  EXPECT_NEAR(static_cast<double>(read.model.mlp_width) / (1.5 * 14336), 1, 0.2);
  for (const char* part :
       {"32 layers x 4096", "a gated one of 14336, with 8 key-value heads and heads of 128",
        "no model_type, counted as llama"}) {
    EXPECT_NE(read.note.find(part), std::string::npos) << read.note;
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
  EXPECT_EQ(read.parameters, 3880263168U);
  EXPECT_EQ(read.model.vocab_size, 262208U);
  EXPECT_EQ(read.model.seq_length, kLongestUnasked);
  EXPECT_TRUE(read.model.tied_head);
  EXPECT_EQ(parse_hf_config(wrapped.dump(), "config.json", 512).model.seq_length, 512U);
}

TEST(PlanModels, HeadsDivideTheWidth) {
  json odd = llama();
  odd["num_attention_heads"] = 48;
  odd["num_key_value_heads"] = 48;
  odd["head_dim"] = 128;
  EXPECT_EQ(parse_hf_config(odd.dump(), "config.json").model.num_attention_heads, 32U);
}

TEST(PlanModels, WhatCannotBePlannedIsRefused) {
  const auto expect = [](json object, const char* key, const json& value, const char* part) {
    SCOPED_TRACE(key);
    object[key] = value;
    EXPECT_NE(told(object).find(part), std::string::npos) << told(object);
  };
  EXPECT_NE(told(json::object()).find("hidden_size or n_embd or n_embed or d_model is missing"),
            std::string::npos);
  expect(gpt2(), "n_head", nullptr, "n_head or n_heads or num_heads is missing");
  expect(gpt2(), "n_layer", 0, "n_layer must be a whole number");
  expect(llama(), "vocab_size", "many", "vocab_size must be a whole number");
  expect(llama(), "num_hidden_layers", 2.5, "num_hidden_layers must be a whole number");
  expect(llama(), "num_local_experts", 8, "a mixture of experts is not planned");
  expect(llama(), "head_dim", 64, "heads of 64");
  expect(llama(), "intermediate_size", 1, "no GPT of 32 layers x 4096 has about the");
  json huge = llama();
  huge["num_hidden_layers"] = 2147483647;
  expect(huge, "hidden_size", 2147483640, "more parameters than can be counted");
}

}  // namespace
}  // namespace zeropp::plan
