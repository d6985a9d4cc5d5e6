#include "lib/model/hf_names.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

namespace zeropp::model {

namespace {

using nlohmann::json;

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kLlamaPrefix = "model.";
constexpr std::string_view kHead = "lm_head.weight";

/// A part of our names, and of theirs.
using Renamed = std::pair<std::string_view, std::string_view>;

constexpr Renamed kGpt2Names[] = {{"attn.qkv.", "attn.c_attn."},
                                  {"attn.proj.", "attn.c_proj."},
                                  {"mlp.fc.", "mlp.c_fc."},
                                  {"mlp.proj.", "mlp.c_proj."}};
constexpr Renamed kLlamaNames[] = {{"wte.", "embed_tokens."},
                                   {"h.", "layers."},
                                   {"ln_f.", "norm."},
                                   {"ln_1.", "input_layernorm."},
                                   {"ln_2.", "post_attention_layernorm."},
                                   {"attn.qkv.", "self_attn.qkv."},
                                   {"attn.proj.", "self_attn.o_proj."},
                                   {"mlp.proj.", "mlp.down_proj."}};

/// Replaces the first part of that name: at its begin, or after a dot. Whether there was one.
bool rename(std::string& name, const Renamed& renamed) {
  const auto& [ours, theirs] = renamed;
  std::size_t at = name.find(ours);
  while (at != std::string::npos && at > 0 && name[at - 1] != '.') at = name.find(ours, at + 1);
  if (at == std::string::npos) return false;
  name.replace(at, ours.size(), theirs);
  return true;
}

std::vector<HfTensor> gpt2_tensors(const zero::Tensor& own) {
  HfTensor theirs{own.name, own.shape};
  for (const Renamed& each : kGpt2Names) {
    if (rename(theirs.name, each)) theirs.transposed = own.shape.size() == 2;
  }
  if (theirs.transposed) std::ranges::reverse(theirs.shape);
  if (theirs.name != kHead) theirs.name.insert(0, kGpt2Prefix);
  return {theirs};
}

/// Tensors of consecutive rows of `theirs`. A part is a name, which replaces `joined`, and a number
/// of rows.
std::vector<HfTensor> by_rows(const HfTensor& theirs, std::string_view joined,
                              std::span<const std::pair<std::string_view, std::size_t>> parts) {
  std::vector<HfTensor> made;
  const std::size_t row = theirs.shape.size() == 2 ? theirs.shape.back() : 1;
  std::size_t first = 0;
  for (const auto& [name, rows] : parts) {
    HfTensor part = theirs;
    rename(part.name, {joined, name});
    part.shape.front() = rows;
    part.first = first;
    first += rows * row;
    made.push_back(std::move(part));
  }
  return made;
}

std::vector<HfTensor> llama_tensors(const Options& options, const zero::Tensor& own) {
  HfTensor theirs{own.name, own.shape};
  for (const Renamed& each : kLlamaNames) rename(theirs.name, each);
  if (theirs.name != kHead) theirs.name.insert(0, kLlamaPrefix);
  const std::size_t keys = kv_heads(options) * head_width(options);
  const std::pair<std::string_view, std::size_t> qkv[] = {
      {"q_proj.", query_width(options)}, {"k_proj.", keys}, {"v_proj.", keys}};
  if (theirs.name.find(".qkv.") != std::string::npos) return by_rows(theirs, "qkv.", qkv);
  const std::pair<std::string_view, std::size_t> mlp[] = {{"gate_proj.", ffn_width(options)},
                                                          {"up_proj.", ffn_width(options)}};
  if (theirs.name.find(".gate_up.") != std::string::npos) return by_rows(theirs, "gate_up.", mlp);
  return {theirs};
}

json gpt2_config(const Options& options, std::size_t vocab_size) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", options.num_layers},
          {"n_embd", options.hidden_size},
          {"n_head", options.num_attention_heads},
          {"n_inner", ffn_width(options)},
          {"n_positions", options.seq_length},
          {"vocab_size", vocab_size},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", options.norm_eps},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0}};
}

json llama_config(const Options& options, std::size_t vocab_size) {
  const bool qwen2 = options.add_qkv_bias;
  return {{"model_type", qwen2 ? "qwen2" : "llama"},
          {"architectures", {qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
          {"num_hidden_layers", options.num_layers},
          {"hidden_size", options.hidden_size},
          {"num_attention_heads", options.num_attention_heads},
          {"num_key_value_heads", kv_heads(options)},
          {"head_dim", head_width(options)},
          {"intermediate_size", ffn_width(options)},
          {"max_position_embeddings", options.seq_length},
          {"vocab_size", vocab_size},
          {"hidden_act", "silu"},
          {"rms_norm_eps", options.norm_eps},
          // transformers 5 reads the second, earlier versions the first.
          {"rope_theta", options.rope_theta},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", options.rope_theta}}},
          {"attention_dropout", 0.0}};
}

}  // namespace

std::size_t HfTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::vector<HfTensor> hf_tensors(const Options& options, const zero::Tensor& own) {
  return is_llama(options) ? llama_tensors(options, own) : gpt2_tensors(own);
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {kGpt2Prefix, kLlamaPrefix}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

std::string hf_config(const Options& options, std::size_t vocab_size) {
  json config =
      is_llama(options) ? llama_config(options, vocab_size) : gpt2_config(options, vocab_size);
  config["tie_word_embeddings"] = options.tied_head;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  return config.dump(2) + "\n";
}

}  // namespace zeropp::model
