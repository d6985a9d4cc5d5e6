#include "lib/model/gpt2_names.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace zeropp::model {

namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";

/// A part of our names, and of theirs.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
    {{"attn.qkv.", "attn.c_attn."},
     {"attn.proj.", "attn.c_proj."},
     {"mlp.fc.", "mlp.c_fc."},
     {"mlp.proj.", "mlp.c_proj."}}};

}  // namespace

Gpt2Tensor gpt2_tensor(const zero::Tensor& own) {
  Gpt2Tensor theirs{own.name, own.shape, false};
  for (const auto& [ours, name] : kNames) {
    const std::size_t at = theirs.name.find(ours);
    if (at == std::string::npos) continue;
    theirs.name.replace(at, ours.size(), name);
    theirs.transposed = own.shape.size() == 2;
  }
  if (theirs.transposed) std::ranges::reverse(theirs.shape);
  if (theirs.name != kHead) theirs.name.insert(0, kPrefix);
  return theirs;
}

std::string_view without_prefix(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

std::string gpt2_config(const Options& options, std::size_t vocab_size) {
  const nlohmann::json none;
  return nlohmann::json{{"model_type", "gpt2"},
                        {"architectures", {"GPT2LMHeadModel"}},
                        {"n_layer", options.num_layers},
                        {"n_embd", options.hidden_size},
                        {"n_head", options.num_attention_heads},
                        {"n_positions", options.seq_length},
                        {"vocab_size", vocab_size},
                        {"activation_function", "gelu_new"},
                        {"layer_norm_epsilon", 1e-5},
                        {"tie_word_embeddings", options.tied_head},
                        {"attn_pdrop", 0.0},
                        {"embd_pdrop", 0.0},
                        {"resid_pdrop", 0.0},
                        {"bos_token_id", none},
                        {"eos_token_id", none}}
             .dump(2) +
         "\n";
}

}  // namespace zeropp::model
