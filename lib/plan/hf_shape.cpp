#include "lib/plan/hf_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "lib/base/error.hpp"
#include "lib/base/text.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

/// Parameters of a norm over n values: none, n (RMSNorm, LayerNorm without a bias), or 2 n.
enum class Norm : std::uint8_t { none, scale, scale_and_bias };
/// Norms of queries and keys: one that all heads share, or one over the values of all heads.
enum class QkNorm : std::uint8_t { none, shared, of_all_heads };

/// Whether something is there: as `key` says, or as the class has it where the key is missing.
struct Switch {
  bool otherwise = false;
  const char* key = nullptr;  ///< null: the class alone decides
};
constexpr Switch kYes{true};
constexpr Switch kNo{false};
constexpr Switch kAttentionBias{false, "attention_bias"};
constexpr Switch kMlpBias{false, "mlp_bias"};
constexpr Switch kBias{false, "bias"};

/// Parts of an architecture. Members that a row leaves out are Llama's.
struct Architecture {
  const char* types;  ///< values of model_type, with commas between; the first is its name
  HfSizes usual;      ///< of the class
  bool tied = false;
  bool gated = true;
  Norm norm = Norm::scale;
  std::size_t norms = 2;  ///< of a block
  Switch qkv_bias = kNo;
  Switch out_bias = kNo;
  Switch mlp_bias = kNo;
  QkNorm qk_norm = QkNorm::none;
  Switch has_qk_norm = kYes;  ///< where qk_norm is not none
  bool position_table = false;
  bool head_bias = false;
  bool last_norm = true;
  std::size_t embedded = 0;  ///< width of the table of tokens; 0: the hidden size
  std::size_t more = 0;      ///< parameters that only this architecture has, outside its blocks
  /// Takes what other keys decide.
  void (*adjust)(const HfKeys& keys, Architecture& made, HfSizes& sizes) = nullptr;
};

void adjust_falcon(const HfKeys& keys, Architecture& made, HfSizes& sizes) {
  if (keys.is("new_decoder_architecture", false)) {
    made.norms = keys.size({"num_ln_in_parallel_attn"}, 2, 2);
  } else {
    sizes.kv_heads = keys.is("multi_query", true) ? 1 : sizes.heads;
    made.norms = keys.is("parallel_attn", true) ? 1 : 2;
  }
}

void adjust_opt(const HfKeys& keys, Architecture& made, HfSizes& sizes) {
  made.last_norm =
      keys.is("do_layer_norm_before", true) && !keys.is("_remove_final_layer_norm", false);
  made.embedded = keys.size({"word_embed_proj_dim"}, sizes.hidden, sizes.hidden);
  // Two matrices lead to the hidden size and back.
  if (made.embedded != sizes.hidden) made.more = 2 * made.embedded * sizes.hidden;
  made.more += 2 * sizes.hidden;  // two rows of positions for padding
}

void adjust_bloom(const HfKeys&, Architecture& made, HfSizes& sizes) {
  made.more = 2 * sizes.hidden;  // a norm right after the table of tokens
}

void adjust_bigcode(const HfKeys& keys, Architecture&, HfSizes& sizes) {
  if (keys.is("multi_query", true)) sizes.kv_heads = 1;
}

void adjust_stablelm(const HfKeys& keys, Architecture& made, HfSizes&) {
  if (keys.is("use_parallel_residual", false)) made.norms = 1;
}

void adjust_qwen(const HfKeys&, Architecture&, HfSizes& sizes) {
  sizes.mlp /= 2;  // the key has both halves
}

// GPT-2 and its relatives: no gate, norms with a bias, a bias of every matrix.
Architecture gpt(const char* types, const HfSizes& usual) {
  return {.types = types,
          .usual = usual,
          .tied = true,
          .gated = false,
          .norm = Norm::scale_and_bias,
          .qkv_bias = kYes,
          .out_bias = kYes,
          .mlp_bias = kYes};
}

template <class Change>
Architecture with(Architecture made, const Change& change) {
  change(made);
  return made;
}

/// The first row is what a gated decoder of an unknown type is counted as, the second another one.
const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all{
      {.types = "llama,llava,llava_next,llava_onevision,idefics3,smolvlm,internvl,internvl_chat,"
                "granite,helium,Yi,baichuan,xverse,aquila",
       .usual = {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .mlp_bias = kMlpBias},
      with(gpt("gpt2", {768, 12, 12, 0, 0, 0, 50257, 1024}),
           [](Architecture& made) { made.position_table = true; }),
      {.types = "mistral,ministral,ministral3,mistral3,pixtral,voxtral,idefics2",
       .usual = {4096, 32, 32, 8, 0, 14336, 32000, 131072}},
      {.types =
           "qwen2,qwen2_vl,qwen2_vl_text,qwen2_5_vl,qwen2_5_vl_text,qwen2_audio,qwen2_5_omni_text",
       .usual = {4096, 32, 32, 32, 0, 22016, 151936, 32768},
       .qkv_bias = kYes},
      {.types = "qwen3,qwen3_vl,qwen3_vl_text,hunyuan_v1_dense",
       .usual = {4096, 32, 32, 32, 128, 22016, 151936, 32768},
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .qk_norm = QkNorm::shared},
      {.types = "gemma,paligemma",
       .usual = {3072, 28, 16, 16, 256, 24576, 256000, 8192},
       .tied = true,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias},
      {.types = "gemma2",
       .usual = {2304, 26, 8, 4, 256, 9216, 256000, 8192},
       .tied = true,
       .norms = 4,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias},
      {.types = "gemma3_text,gemma3",
       .usual = {2304, 26, 8, 4, 256, 9216, 262208, 131072},
       .tied = true,
       .norms = 4,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .qk_norm = QkNorm::shared},
      with(gpt("phi,phi-msft", {2048, 24, 32, 0, 0, 8192, 51200, 2048}),
           [](Architecture& made) {
             made.tied = false;
             made.norms = 1;
             made.qk_norm = QkNorm::shared;
             made.has_qk_norm = {false, "qk_layernorm"};
             made.head_bias = true;
           }),
      {.types = "phi3,phi3_v", .usual = {3072, 32, 32, 0, 0, 8192, 32064, 4096}},
      with(gpt("gpt_neox", {6144, 44, 64, 0, 0, 24576, 50432, 2048}),
           [](Architecture& made) {
             made.tied = false;
             made.qkv_bias = made.out_bias = {true, "attention_bias"};
           }),
      with(gpt("falcon,RefinedWeb,RefinedWebModel", {4544, 32, 71, 0, 0, 0, 65024, 2048}),
           [](Architecture& made) {
             made.qkv_bias = made.out_bias = made.mlp_bias = kBias;
             made.adjust = adjust_falcon;
           }),
      with(gpt("opt", {768, 12, 12, 0, 0, 3072, 50272, 2048}),
           [](Architecture& made) {
             made.qkv_bias = made.out_bias = made.mlp_bias = {true, "enable_bias"};
             made.position_table = true;
             made.adjust = adjust_opt;
           }),
      with(gpt("gptj,codegen", {4096, 28, 16, 0, 0, 0, 50400, 2048}),
           [](Architecture& made) {
             made.tied = false;
             made.norms = 1;
             made.qkv_bias = made.out_bias = kNo;
             made.head_bias = true;
           }),
      with(gpt("gpt_neo", {2048, 24, 16, 0, 0, 0, 50257, 2048}),
           [](Architecture& made) {
             made.qkv_bias = kNo;
             made.position_table = true;
           }),
      with(gpt("gpt_bigcode", {768, 12, 12, 0, 0, 0, 50257, 1024}),
           [](Architecture& made) {
             made.position_table = true;
             made.adjust = adjust_bigcode;
           }),
      with(gpt("bloom", {64, 2, 8, 0, 0, 0, 250880, 2048}),
           [](Architecture& made) { made.adjust = adjust_bloom; }),
      with(gpt("starcoder2", {3072, 30, 24, 2, 0, 12288, 49152, 4096}),
           [](Architecture& made) {
             made.qkv_bias = made.out_bias = made.mlp_bias = {true, "use_bias"};
           }),
      with(gpt("nemotron", {6144, 32, 48, 0, 0, 24576, 256000, 4096}),
           [](Architecture& made) {
             made.tied = false;
             made.qkv_bias = made.out_bias = kAttentionBias;
             made.mlp_bias = kMlpBias;
           }),
      {.types = "stablelm",
       .usual = {2560, 32, 32, 32, 0, 6912, 50304, 4096},
       .norm = Norm::scale_and_bias,
       .qkv_bias = {false, "use_qkv_bias"},
       .qk_norm = QkNorm::of_all_heads,
       .has_qk_norm = {false, "qk_layernorm"},
       .adjust = adjust_stablelm},
      {.types = "orion", .usual = {}, .norm = Norm::scale_and_bias},
      {.types = "cohere,cohere2",
       .usual = {8192, 40, 64, 0, 0, 22528, 256000, 8192},
       .tied = true,
       .norms = 1,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .qk_norm = QkNorm::of_all_heads,
       .has_qk_norm = {false, "use_qk_norm"}},
      {.types = "olmo",
       .usual = {4096, 32, 32, 0, 0, 11008, 50304, 2048},
       .norm = Norm::none,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias},
      {.types = "olmo2,olmo3",
       .usual = {4096, 32, 32, 0, 0, 11008, 50304, 2048},
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .qk_norm = QkNorm::of_all_heads},
      {.types = "smollm3",
       .usual = {2048, 36, 16, 4, 0, 11008, 128256, 32768},
       .tied = true,
       .qkv_bias = kAttentionBias,
       .out_bias = kAttentionBias,
       .mlp_bias = kMlpBias},
      {.types = "glm",
       .usual = {4096, 40, 32, 2, 128, 13696, 151552, 131072},
       .qkv_bias = {true, "attention_bias"}},
      {.types = "glm4",
       .usual = {4096, 40, 32, 2, 128, 13696, 151552, 131072},
       .norms = 4,
       .qkv_bias = {true, "attention_bias"}},
      {.types = "exaone4",
       .usual = {4096, 32, 32, 32, 0, 16384, 102400, 2048},
       .qk_norm = QkNorm::shared},
      {.types = "seed_oss",
       .usual = {4096, 64, 80, 8, 128, 27648, 155136, 524288},
       .qkv_bias = {true, "attention_bias"},
       .out_bias = {false, "attention_out_bias"},
       .mlp_bias = kMlpBias},
      {.types = "ernie4_5",
       .usual = {1024, 18, 16, 2, 128, 3072, 103424, 131072},
       .tied = true,
       .qkv_bias = {false, "use_bias"},
       .out_bias = {false, "use_bias"},
       .mlp_bias = {false, "use_bias"}},
      {.types = "internlm,internlm2", .usual = {}, .qkv_bias = kBias, .out_bias = kBias},
      {.types = "qwen", .usual = {}, .qkv_bias = kYes, .adjust = adjust_qwen},
  };
  return all;
}

bool is_of(const Architecture& row, const std::string& type) {
  const std::vector<std::string> types = split(row.types, ',');
  return std::ranges::find(types, type) != types.end();
}

/// Whether a number of experts, or a list of numbers, says that there are several.
bool has_several(const json& value) {
  if (value.is_array()) return std::ranges::any_of(value, has_several);
  return value.is_number() && value.get<double>() > 1;
}

bool has_experts(const json& object) {
  return std::ranges::any_of(object.items(), [](const auto& item) {
    const bool named = item.key().find("experts") != std::string::npos;
    return (named && has_several(item.value())) ||
           (item.value().is_object() && has_experts(item.value()));
  });
}

void refuse_other_decoders(const HfKeys& keys, const std::string& type) {
  const auto refuse = [&](const char* what) {
    throw Error(ExitCode::usage,
                fmt::format("{}: {} is not planned: zpp_plan savings --model-params PARAMETERS "
                            "--world-size RANKS --baseline bf16 --passes zero3 has what a rank of "
                            "any model sends",
                            keys.name(), what));
  };
  if (type.find("moe") != std::string::npos || type == "mixtral" || type == "dbrx" ||
      has_experts(keys.object())) {
    refuse("a mixture of experts");
  }
  if (keys.is("is_encoder_decoder", false)) refuse("an encoder with a decoder");
  if (keys.has("kv_lora_rank")) refuse("attention with latent keys and values");
  for (const auto& item : keys.object().items()) {
    for (const char* part : {"mamba_", "ssm_", "state_size", "linear_num_value_heads"}) {
      if (item.key().find(part) != std::string::npos) refuse("a model with recurrent blocks");
    }
  }
}

/// The row that counts a model of `type`, and whether it is of that type.
std::pair<const Architecture*, bool> row_of(const HfKeys& keys, const std::string& type) {
  const std::vector<Architecture>& all = architectures();
  const auto found =
      std::ranges::find_if(all, [&](const Architecture& row) { return is_of(row, type); });
  if (found != all.end()) return {&*found, true};
  if (keys.has("n_embd")) return {&all[1], type.empty()};
  return {&all[0], type.empty()};
}

HfSizes sizes_of(const HfKeys& keys, const HfSizes& usual, bool gpt2) {
  HfSizes made;
  made.hidden = keys.size({"hidden_size", "n_embd", "n_embed", "d_model"}, usual.hidden);
  made.layers = keys.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, usual.layers);
  made.heads = keys.size({"num_attention_heads", "n_head", "n_heads", "num_heads"}, usual.heads);
  made.kv_heads = keys.size({"num_key_value_heads", "num_kv_heads", "n_head_kv"},
                            usual.kv_heads > 0 ? usual.kv_heads : made.heads, made.heads);
  const std::size_t even = std::max<std::size_t>(1, made.hidden / made.heads);
  made.head_size =
      keys.size({"head_dim", "kv_channels"}, usual.head_size > 0 ? usual.head_size : even, even);
  const std::size_t wide = 4 * made.hidden;
  made.mlp = keys.size({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"},
                       usual.mlp > 0 || (!gpt2 && usual.hidden == 0) ? usual.mlp : wide, wide);
  made.vocab = keys.size({"vocab_size"}, usual.vocab);
  made.positions =
      keys.size({"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"},
                usual.positions);
  return made;
}

std::size_t of_norm(Norm norm, std::size_t values) {
  switch (norm) {
    case Norm::none:
      return 0;
    case Norm::scale:
      return values;
    case Norm::scale_and_bias:
      break;
  }
  return 2 * values;
}

std::size_t block_parameters(const HfKeys& keys, const Architecture& row, const HfSizes& sizes) {
  const auto [hidden, layers, heads, kv_heads, head, mlp, vocab, positions] = sizes;
  const auto has = [&](const Switch& what) {
    return what.key != nullptr ? keys.is(what.key, what.otherwise) : what.otherwise;
  };
  const std::size_t queries = heads * head;
  const std::size_t values = kv_heads * head;
  const std::size_t halves = row.gated ? 2 : 1;
  std::size_t sum = hidden * (queries + 2 * values) + queries * hidden;
  if (has(row.qkv_bias)) sum += queries + 2 * values;
  if (has(row.out_bias)) sum += hidden;
  sum += (halves + 1) * hidden * mlp;
  if (has(row.mlp_bias)) sum += halves * mlp + hidden;
  sum += row.norms * of_norm(row.norm, hidden);
  if (row.qk_norm == QkNorm::none || !has(row.has_qk_norm)) return sum;
  return sum + (row.qk_norm == QkNorm::shared ? 2 * of_norm(row.norm, head) : queries + values);
}

/// Refuses sizes whose parameters do not fit into 64 bits.
void require_countable(const HfKeys& keys, const HfSizes& sizes) {
  const auto real = [](std::size_t size) { return static_cast<double>(size); };
  const double widths = 4 * real(sizes.heads) * real(sizes.head_size) +
                        2 * real(sizes.kv_heads) * real(sizes.head_size) + 3 * real(sizes.mlp);
  const double most = real(sizes.hidden) *
                      (2 * real(sizes.vocab) + real(sizes.positions) + real(sizes.layers) * widths);
  if (most < 0x1p62) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: its sizes are of more parameters than can be counted: give a "
                          "config.json of a real model",
                          keys.name()));
}

}  // namespace

HfShape read_hf_shape(const HfKeys& keys, const std::string& type) {
  refuse_other_decoders(keys, type);
  const auto [found, known] = row_of(keys, type);
  Architecture row = *found;
  HfShape made;
  made.counted_as = std::string_view(row.types).substr(0, std::string_view(row.types).find(','));
  made.known = known;
  const bool of_type = !type.empty() && known;
  made.sizes = sizes_of(keys, of_type ? row.usual : HfSizes{}, keys.has("n_embd"));
  // The activation says whether an MLP of an unknown type has a gate.
  const std::string activation = keys.text("hidden_act");
  if (!of_type && !activation.empty() && !keys.has("n_embd")) {
    row.gated = activation == "silu" || activation == "swiglu";
  }
  if (row.adjust != nullptr) row.adjust(keys, row, made.sizes);
  const HfSizes& sizes = made.sizes;
  require_countable(keys, sizes);
  made.gated_mlp = row.gated;
  made.position_table = row.position_table;
  made.tied_head = keys.is("tie_word_embeddings", row.tied);
  const std::size_t table = sizes.vocab * (row.embedded > 0 ? row.embedded : sizes.hidden);
  made.parameters = table + (made.tied_head ? 0 : table) + (row.head_bias ? sizes.vocab : 0) +
                    (row.position_table ? sizes.positions * sizes.hidden : 0) + row.more +
                    sizes.layers * block_parameters(keys, row, sizes) +
                    (row.last_norm ? of_norm(row.norm, sizes.hidden) : 0);
  return made;
}

}  // namespace zeropp::plan
