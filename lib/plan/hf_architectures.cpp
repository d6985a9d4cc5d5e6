#include "lib/plan/hf_architectures.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/text.hpp"
#include "lib/model/options.hpp"

namespace zeropp::plan {

namespace {

using model::NormPlace;
using model::Parts;
using model::QkNorm;

const std::vector<HfSwitch> kAttentionBias{{"attention_bias", &Parts::qkv_bias},
                                           {"attention_bias", &Parts::out_bias}};
const std::vector<HfSwitch> kAllBias{{"attention_bias", &Parts::qkv_bias},
                                     {"attention_bias", &Parts::out_bias},
                                     {"mlp_bias", &Parts::mlp_bias}};

std::vector<HfSwitch> all_of(const char* key) {
  return {{key, &Parts::qkv_bias}, {key, &Parts::out_bias}, {key, &Parts::mlp_bias}};
}

Parts llama() { return model::parts_of({.name = "llama"}); }

template <class Change>
Parts with(Parts made, const Change& change) {
  change(made);
  return made;
}

template <class Change>
Parts llama_but(const Change& change) {
  return with(llama(), change);
}

Parts with_qk_norm(QkNorm norm) {
  return llama_but([&](Parts& made) { made.qk_norm = norm; });
}

/// `width`: 0 stands for the MLP's.
Parts with_experts(std::size_t count, std::size_t per_token, std::size_t width,
                   QkNorm norm = QkNorm::none) {
  return llama_but([&](Parts& made) {
    made.qk_norm = norm;
    made.experts = {.count = count, .per_token = per_token, .width = width};
  });
}

Parts latent(std::size_t query_rank, std::size_t key_rank, std::size_t rotary, std::size_t value) {
  return llama_but([&](Parts& made) {
    made.latent = {.key_rank = key_rank,
                   .query_rank = query_rank,
                   .rotary_width = rotary,
                   .value_width = value};
  });
}

/// A norm of queries and keys that the class has where `key` says so.
template <const char* Key, bool Otherwise>
void adjust_qk_norm(const HfKeys& keys, Parts& parts, HfSizes&) {
  if (!keys.is(Key, Otherwise)) parts.qk_norm = QkNorm::none;
}
constexpr char kQkLayernorm[] = "qk_layernorm";
constexpr char kUseQkNorm[] = "use_qk_norm";

void adjust_falcon(const HfKeys& keys, Parts& parts, HfSizes& sizes) {
  parts.rotary = !keys.is("alibi", false);
  if (keys.is("new_decoder_architecture", false)) {
    parts.parallel = true;
    parts.one_norm = keys.size({"num_ln_in_parallel_attn"}, 2, 2) == 1;
  } else {
    sizes.kv_heads = keys.is("multi_query", true) ? 1 : sizes.heads;
    parts.parallel = parts.one_norm = keys.is("parallel_attn", true);
  }
}

void adjust_opt(const HfKeys& keys, Parts& parts, HfSizes& sizes) {
  const bool before = keys.is("do_layer_norm_before", true);
  parts.norm_place = before ? NormPlace::before : NormPlace::after;
  parts.last_norm = before && !keys.is("_remove_final_layer_norm", false);
  const std::size_t embedded = keys.size({"word_embed_proj_dim"}, sizes.hidden, sizes.hidden);
  if (embedded != sizes.hidden) parts.embedded_width = embedded;
}

void adjust_bigcode(const HfKeys& keys, Parts&, HfSizes& sizes) {
  if (keys.is("multi_query", true)) sizes.kv_heads = 1;
}

void adjust_neox(const HfKeys& keys, Parts& parts, HfSizes&) {
  parts.parallel = keys.is("use_parallel_residual", true);
}

void adjust_stablelm(const HfKeys& keys, Parts& parts, HfSizes& sizes) {
  parts.parallel = parts.one_norm = keys.is("use_parallel_residual", false);
  adjust_qk_norm<kQkLayernorm, false>(keys, parts, sizes);
}

void adjust_qwen(const HfKeys&, Parts&, HfSizes& sizes) {
  sizes.mlp /= 2;  // the key has both halves
}

void adjust_hyperclovax(const HfKeys& keys, Parts& parts, HfSizes&) {
  if (!keys.is("use_post_norm", true)) parts.norm_place = NormPlace::before;
}

/// Dense MLPs have a width of their own.
void adjust_llama4(const HfKeys& keys, Parts&, HfSizes& sizes) {
  sizes.mlp = keys.size({"intermediate_size_mlp"}, 16384);
}

/// The first row is what a gated decoder of an unknown type is planned as, the second another one.
const std::vector<HfArchitecture>& architectures() {
  const Parts gpt;
  const Parts rotary = with(gpt, [](Parts& made) { made.rotary = true; });
  const Parts in_parallel = with(rotary, [](Parts& made) { made.parallel = made.one_norm = true; });
  const Parts around = llama_but([](Parts& made) { made.norm_place = NormPlace::around; });
  const Parts layer_norm = llama_but([](Parts& made) { made.rms_norm = false; });
  static const std::vector<HfArchitecture> all{
      {.types = "llama,llava,llava_next,llava_onevision,idefics3,smolvlm,internvl,internvl_chat,"
                "granite,helium,Yi,baichuan,xverse,aquila,iquestcoder",
       .usual = {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       .parts = llama(),
       .switches = kAllBias},
      {.types = "gpt2",
       .usual = {768, 12, 12, 0, 0, 0, 50257, 1024},
       .parts = gpt,
       .tied = true,
       .padding_positions = 0},
      {.types = "mistral,ministral,ministral3,mistral3,pixtral,voxtral,idefics2",
       .usual = {4096, 32, 32, 8, 0, 14336, 32000, 131072},
       .parts = llama()},
      {.types =
           "qwen2,qwen2_vl,qwen2_vl_text,qwen2_5_vl,qwen2_5_vl_text,qwen2_audio,qwen2_5_omni_text",
       .usual = {4096, 32, 32, 32, 0, 22016, 151936, 32768},
       .parts = llama_but([](Parts& made) { made.qkv_bias = true; })},
      {.types = "qwen3,qwen3_vl,qwen3_vl_text,hunyuan_v1_dense",
       .usual = {4096, 32, 32, 32, 128, 22016, 151936, 32768},
       .parts = with_qk_norm(QkNorm::shared),
       .switches = kAttentionBias},
      {.types = "gemma,paligemma",
       .usual = {3072, 28, 16, 16, 256, 24576, 256000, 8192},
       .parts = llama(),
       .tied = true,
       .switches = kAttentionBias},
      {.types = "gemma2",
       .usual = {2304, 26, 8, 4, 256, 9216, 256000, 8192},
       .parts = around,
       .tied = true,
       .switches = kAttentionBias},
      {.types = "vaultgemma",
       .usual = {2304, 26, 8, 4, 256, 9216, 256000, 8192},
       .parts = llama(),
       .tied = true,
       .switches = kAttentionBias},
      {.types = "gemma3_text,gemma3",
       .usual = {2304, 26, 8, 4, 256, 9216, 262208, 131072},
       .parts = with(around, [](Parts& made) { made.qk_norm = QkNorm::shared; }),
       .tied = true,
       .switches = kAttentionBias},
      {.types = "phi,phi-msft",
       .usual = {2048, 24, 32, 0, 0, 8192, 51200, 2048},
       .parts = with(in_parallel,
                     [](Parts& made) {
                       made.qk_norm = QkNorm::shared;
                       made.head_bias = true;
                     }),
       .adjust = adjust_qk_norm<kQkLayernorm, false>},
      {.types = "phi3,phi3_v", .usual = {3072, 32, 32, 0, 0, 8192, 32064, 4096}, .parts = llama()},
      {.types = "gpt_neox",
       .usual = {6144, 44, 64, 0, 0, 24576, 50432, 2048},
       .parts = rotary,
       .switches = kAttentionBias,
       .adjust = adjust_neox},
      {.types = "falcon,RefinedWeb,RefinedWebModel",
       .usual = {4544, 32, 71, 0, 0, 0, 65024, 2048},
       .parts =
           with(rotary, [](Parts& made) { made.qkv_bias = made.out_bias = made.mlp_bias = false; }),
       .tied = true,
       .switches = all_of("bias"),
       .adjust = adjust_falcon},
      {.types = "opt",
       .usual = {768, 12, 12, 0, 0, 3072, 50272, 2048},
       .parts = gpt,
       .tied = true,
       .switches = all_of("enable_bias"),
       .padding_positions = 2,
       .adjust = adjust_opt},
      {.types = "biogpt",
       .usual = {1024, 24, 16, 0, 0, 4096, 42384, 1024},
       .parts = gpt,
       .tied = true,
       .padding_positions = 2},
      {.types = "xglm",
       .usual = {1024, 24, 16, 0, 0, 4096, 256008, 2048},
       .parts = gpt,
       .tied = true},
      {.types = "openai-gpt",
       .usual = {768, 12, 12, 0, 0, 0, 40478, 512},
       .parts = with(gpt,
                     [](Parts& made) {
                       made.norm_place = NormPlace::after;
                       made.last_norm = false;
                     }),
       .tied = true,
       .padding_positions = 0},
      {.types = "gptj,codegen",
       .usual = {4096, 28, 16, 0, 0, 0, 50400, 2048},
       .parts = with(in_parallel,
                     [](Parts& made) {
                       made.qkv_bias = made.out_bias = false;
                       made.head_bias = true;
                     })},
      {.types = "gpt_neo",
       .usual = {2048, 24, 16, 0, 0, 0, 50257, 2048},
       .parts = with(gpt, [](Parts& made) { made.qkv_bias = false; }),
       .tied = true,
       .padding_positions = 0},
      {.types = "gpt_bigcode",
       .usual = {768, 12, 12, 0, 0, 0, 50257, 1024},
       .parts = gpt,
       .tied = true,
       .padding_positions = 0,
       .adjust = adjust_bigcode},
      {.types = "bloom",
       .usual = {64, 2, 8, 0, 0, 0, 250880, 2048},
       .parts = with(gpt, [](Parts& made) { made.embedding_norm = true; }),
       .tied = true},
      {.types = "mpt",
       .usual = {2048, 24, 16, 0, 0, 0, 50368, 2048},
       .parts = with(gpt,
                     [](Parts& made) {
                       made.norm_bias = made.qkv_bias = made.out_bias = made.mlp_bias = false;
                     }),
       .tied = true},
      {.types = "starcoder2",
       .usual = {3072, 30, 24, 2, 0, 12288, 49152, 4096},
       .parts = rotary,
       .tied = true,
       .switches = all_of("use_bias")},
      {.types = "nemotron",
       .usual = {6144, 32, 48, 0, 0, 24576, 256000, 4096},
       .parts =
           with(rotary, [](Parts& made) { made.qkv_bias = made.out_bias = made.mlp_bias = false; }),
       .switches = kAllBias},
      {.types = "jais2",
       .usual = {3328, 32, 26, 0, 0, 26624, 150272, 8192},
       .parts = rotary,
       .switches = kAllBias},
      {.types = "persimmon",
       .usual = {4096, 36, 64, 0, 0, 16384, 262144, 16384},
       .parts = with(rotary, [](Parts& made) { made.qk_norm = QkNorm::shared; }),
       .adjust = adjust_qk_norm<kQkLayernorm, true>},
      {.types = "arcee",
       .usual = {2560, 32, 32, 0, 0, 18432, 32000, 4096},
       .parts = llama_but([](Parts& made) { made.gated_mlp = false; }),
       .switches = kAllBias},
      {.types = "apertus",
       .usual = {4096, 32, 32, 0, 0, 14336, 131072, 65536},
       .parts = llama_but([](Parts& made) {
         made.gated_mlp = false;
         made.activation_parameters = 2;
         made.qk_norm = QkNorm::shared;
       }),
       .switches = kAttentionBias},
      {.types = "stablelm",
       .usual = {2560, 32, 32, 32, 0, 6912, 50304, 4096},
       .parts = with(layer_norm,
                     [](Parts& made) {
                       made.norm_bias = true;
                       made.qk_norm = QkNorm::each;
                     }),
       .switches = {{"use_qkv_bias", &Parts::qkv_bias}},
       .adjust = adjust_stablelm},
      {.types = "orion",
       .usual = {},
       .parts = with(layer_norm, [](Parts& made) { made.norm_bias = true; })},
      {.types = "cohere,cohere2",
       .usual = {8192, 40, 64, 0, 0, 22528, 256000, 8192},
       .parts = with(layer_norm,
                     [](Parts& made) {
                       made.parallel = made.one_norm = true;
                       made.qk_norm = QkNorm::each;
                     }),
       .tied = true,
       .switches = kAttentionBias,
       .adjust = adjust_qk_norm<kUseQkNorm, false>},
      {.types = "olmo",
       .usual = {4096, 32, 32, 0, 0, 11008, 50304, 2048},
       .parts = with(layer_norm, [](Parts& made) { made.norm_weight = false; }),
       .switches = kAttentionBias},
      {.types = "olmo2,olmo3",
       .usual = {4096, 32, 32, 0, 0, 11008, 50304, 2048},
       .parts = with(with_qk_norm(QkNorm::whole),
                     [](Parts& made) { made.norm_place = NormPlace::after; }),
       .switches = kAttentionBias},
      {.types = "smollm3",
       .usual = {2048, 36, 16, 4, 0, 11008, 128256, 32768},
       .parts = llama(),
       .tied = true,
       .switches = kAllBias},
      {.types = "cwm",
       .usual = {6144, 64, 48, 8, 128, 21504, 128256, 131072},
       .parts = llama(),
       .switches = {{"mlp_bias", &Parts::mlp_bias}}},
      {.types = "glm",
       .usual = {4096, 40, 32, 2, 128, 13696, 151552, 131072},
       .parts = llama_but([](Parts& made) { made.qkv_bias = true; }),
       .switches = {{"attention_bias", &Parts::qkv_bias}}},
      {.types = "glm4",
       .usual = {4096, 40, 32, 2, 128, 13696, 151552, 131072},
       .parts = with(around, [](Parts& made) { made.qkv_bias = true; }),
       .switches = {{"attention_bias", &Parts::qkv_bias}}},
      {.types = "hyperclovax",
       .usual = {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       .parts = around,
       .switches = kAllBias,
       .adjust = adjust_hyperclovax},
      {.types = "exaone4",
       .usual = {4096, 32, 32, 32, 0, 16384, 102400, 2048},
       .parts = with(with_qk_norm(QkNorm::shared),
                     [](Parts& made) { made.norm_place = NormPlace::after; })},
      {.types = "seed_oss",
       .usual = {4096, 64, 80, 8, 128, 27648, 155136, 524288},
       .parts = llama_but([](Parts& made) { made.qkv_bias = true; }),
       .switches = {{"attention_bias", &Parts::qkv_bias},
                    {"attention_out_bias", &Parts::out_bias},
                    {"mlp_bias", &Parts::mlp_bias}}},
      {.types = "ernie4_5",
       .usual = {1024, 18, 16, 2, 128, 3072, 103424, 131072},
       .parts = llama(),
       .tied = true,
       .switches = all_of("use_bias")},
      {.types = "internlm,internlm2",
       .usual = {},
       .parts = llama(),
       .switches = {{"bias", &Parts::qkv_bias}, {"bias", &Parts::out_bias}}},
      {.types = "qwen",
       .usual = {},
       .parts = llama_but([](Parts& made) { made.qkv_bias = true; }),
       .adjust = adjust_qwen},
      {.types = "youtu",
       .usual = {2048, 32, 16, 0, 128, 6144, 128256, 131072},
       .parts = latent(1536, 512, 64, 128),
       .tied = true,
       .switches = kAttentionBias},
      {.types = "minicpm3",
       .usual = {2560, 62, 40, 0, 64, 6400, 73448, 32768},
       .parts = latent(768, 256, 32, 64),
       .tied = true,
       .switches = kAttentionBias},
      {.types = "mixtral",
       .usual = {4096, 32, 32, 8, 0, 14336, 32000, 131072},
       .parts = with_experts(8, 2, 0)},
      {.types = "granitemoe",
       .usual = {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       .parts = with_experts(8, 2, 0),
       .switches = kAttentionBias},
      {.types = "granitemoeshared",
       .usual = {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       .parts = with_experts(8, 2, 0),
       .switches = kAttentionBias},
      {.types = "qwen2_moe",
       .usual = {2048, 24, 16, 16, 0, 5632, 151936, 32768},
       .parts = with(with_experts(60, 4, 1408),
                     [](Parts& made) {
                       made.qkv_bias = true;
                       made.experts.shared_width = 5632;
                       made.experts.shared_gate = true;
                     }),
       .switches = {{"qkv_bias", &Parts::qkv_bias}}},
      {.types = "qwen3_moe,qwen3_vl_moe_text,qwen3_omni_moe_text,mellum",
       .usual = {2048, 24, 32, 4, 0, 6144, 151936, 32768},
       .parts = with_experts(128, 8, 768, QkNorm::shared),
       .switches = kAttentionBias},
      {.types = "olmoe",
       .usual = {2048, 16, 16, 0, 0, 2048, 50304, 4096},
       .parts = with_experts(64, 8, 0, QkNorm::whole),
       .switches = kAttentionBias},
      {.types = "flex_olmo",
       .usual = {4096, 32, 32, 0, 0, 11008, 100352, 4096},
       .parts = with(with_experts(7, 5, 0, QkNorm::whole),
                     [](Parts& made) { made.norm_place = NormPlace::after; }),
       .switches = kAttentionBias},
      {.types = "minimax_m2",
       .usual = {3072, 62, 48, 8, 128, 1536, 200064, 196608},
       .parts = with_experts(256, 8, 0, QkNorm::whole)},
      {.types = "phimoe",
       .usual = {4096, 32, 32, 8, 0, 6400, 32064, 131072},
       .parts = with(with_experts(16, 2, 0),
                     [](Parts& made) {
                       made.rms_norm = false;
                       made.norm_bias = true;
                     }),
       .switches = {{"attention_bias", &Parts::qkv_bias},
                    {"attention_bias", &Parts::out_bias},
                    {"lm_head_bias", &Parts::head_bias}}},
      {.types = "dbrx",
       .usual = {2048, 24, 16, 1, 0, 3584, 32000, 2048},
       .parts = with(with_experts(4, 1, 0), [](Parts& made) { made.rms_norm = false; })},
      {.types = "gpt_oss",
       .usual = {2880, 36, 64, 8, 64, 2880, 201088, 131072},
       .parts = with(with_experts(128, 4, 0),
                     [](Parts& made) {
                       made.qkv_bias = made.out_bias = made.sinks = true;
                       made.experts.router_bias = made.experts.bias = true;
                     }),
       .switches = kAttentionBias},
      {.types = "llama4_text,llama4",
       .usual = {5120, 48, 40, 8, 128, 8192, 202048, 131072},
       .parts = with_experts(16, 1, 0),
       .switches = kAttentionBias,
       .shared_experts = 1,
       .adjust = adjust_llama4},
      {.types = "hunyuan_v1_moe",
       .usual = {4096, 32, 32, 0, 0, 11008, 290943, 2048},
       .parts = with_experts(1, 1, 0, QkNorm::shared),
       .switches = kAttentionBias,
       .shared_experts = 1},
      {.types = "aria_text",
       .usual = {4096, 32, 32, 0, 0, 4096, 32000, 2048},
       .parts = with_experts(8, 2, 0),
       .switches = kAttentionBias,
       .shared_experts = 2},
      {.types = "ernie4_5_moe",
       .usual = {2560, 28, 20, 4, 0, 12288, 103424, 131072},
       .parts = with(with_experts(64, 6, 1536),
                     [](Parts& made) {
                       made.experts.router_bias = true;
                       made.experts.first = 1;
                     }),
       .tied = true,
       .switches = all_of("use_bias"),
       .shared_experts = 2},
      {.types = "glm4_moe,glm4v_moe_text",
       .usual = {4096, 46, 96, 8, 0, 10944, 151552, 131072},
       .parts = with(with_experts(128, 8, 1408, QkNorm::shared),
                     [](Parts& made) { made.experts.first = 1; }),
       .switches = {{"attention_bias", &Parts::qkv_bias}},
       .shared_experts = 1,
       .adjust = adjust_qk_norm<kUseQkNorm, false>},
      {.types = "solar_open",
       .usual = {4096, 48, 64, 8, 128, 10240, 196608, 131072},
       .parts = with_experts(128, 8, 1280),
       .switches = {{"attention_bias", &Parts::qkv_bias}},
       .shared_experts = 1},
      {.types = "exaone_moe",
       .usual = {4096, 32, 32, 32, 0, 16384, 102400, 2048},
       .parts = with(with_experts(64, 8, 1024, QkNorm::shared),
                     [](Parts& made) { made.experts.first = 1; }),
       .shared_experts = 1},
      {.types = "dots1",
       .usual = {4608, 62, 32, 32, 0, 10944, 152064, 2048},
       .parts = with_experts(128, 6, 1408, QkNorm::shared),
       .switches = kAttentionBias,
       .shared_experts = 1},
      {.types = "deepseek_v2",
       .usual = {4096, 32, 32, 0, 128, 11008, 102400, 2048},
       .parts =
           with(latent(1536, 512, 64, 128),
                [](Parts& made) { made.experts = {.count = 64, .per_token = 0, .width = 1407}; }),
       .switches = kAllBias,
       .shared_experts = 2},
      {.types = "deepseek_v3,kimi_k2",
       .usual = {7168, 61, 128, 0, 128, 18432, 129280, 4096},
       .parts = with(latent(1536, 512, 64, 128),
                     [](Parts& made) {
                       made.experts = {.count = 256, .per_token = 8, .width = 2048, .first = 3};
                     }),
       .switches = kAttentionBias,
       .shared_experts = 1},
      {.types = "glm4_moe_lite",
       .usual = {2048, 47, 20, 0, 192, 10240, 154880, 202752},
       .parts = with(latent(768, 512, 64, 256),
                     [](Parts& made) {
                       made.experts = {.count = 64, .per_token = 4, .width = 1536, .first = 1};
                     }),
       .switches = kAttentionBias,
       .shared_experts = 1},
  };
  return all;
}

bool is_of(const HfArchitecture& row, const std::string& type) {
  const std::vector<std::string> types = split(row.types, ',');
  return std::ranges::find(types, type) != types.end();
}

}  // namespace

const HfArchitecture* hf_architecture(const std::string& type) {
  const std::vector<HfArchitecture>& all = architectures();
  const auto found =
      std::ranges::find_if(all, [&](const HfArchitecture& row) { return is_of(row, type); });
  return found == all.end() ? nullptr : &*found;
}

const HfArchitecture& usual_hf_architecture(bool gpt2) { return architectures()[gpt2 ? 1 : 0]; }

}  // namespace zeropp::plan
