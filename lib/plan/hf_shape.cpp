#include "lib/plan/hf_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/model/steps.hpp"
#include "lib/plan/hf_architectures.hpp"

namespace zeropp::plan {

namespace {

using model::Parts;
using nlohmann::json;

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

/// `row` is null for a type that the table has not.
void refuse_other_decoders(const HfKeys& keys, const std::string& type, const HfArchitecture* row) {
  const auto refuse = [&](const char* what) {
    throw Error(ExitCode::usage,
                fmt::format("{}: {} is not planned: zpp_plan savings --model-params PARAMETERS "
                            "--world-size RANKS --baseline bf16 --passes zero3 has what a rank of "
                            "any model sends",
                            keys.name(), what));
  };
  if (keys.is("is_encoder_decoder", false)) refuse("an encoder with a decoder");
  for (const auto& item : keys.object().items()) {
    for (const char* part :
         {"mamba_", "ssm_", "state_size", "linear_num_value_heads", "conv_L_cache"}) {
      if (item.key().find(part) != std::string::npos) refuse("a model with recurrent blocks");
    }
  }
  const bool mixed = row != nullptr && row->parts.experts.count > 0;
  const bool is_latent = row != nullptr && row->parts.latent.key_rank > 0;
  if (!mixed && (type.find("moe") != std::string::npos || has_experts(keys.object()))) {
    refuse("a mixture of experts of an unknown model_type");
  }
  if (!is_latent && keys.has("kv_lora_rank")) {
    refuse("latent attention of an unknown model_type");
  }
}

HfSizes sizes_of(const HfKeys& keys, const HfSizes& usual, bool gpt2) {
  HfSizes made;
  made.hidden = keys.size({"hidden_size", "n_embd", "n_embed", "d_model"}, usual.hidden);
  made.layers = keys.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, usual.layers);
  made.heads = keys.size(
      {"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"}, usual.heads);
  made.kv_heads = keys.size({"num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads"},
                            usual.kv_heads > 0 ? usual.kv_heads : made.heads, made.heads);
  const std::size_t even = std::max<std::size_t>(1, made.hidden / made.heads);
  made.head_size =
      keys.size({"head_dim", "kv_channels"}, usual.head_size > 0 ? usual.head_size : even, even);
  const std::size_t wide = keys.size({"expansion_ratio"}, 4) * made.hidden;
  made.mlp = keys.size({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"},
                       usual.mlp > 0 || (!gpt2 && usual.hidden == 0) ? usual.mlp : wide, wide);
  made.vocab = keys.size({"vocab_size"}, usual.vocab);
  made.positions =
      keys.size({"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"},
                usual.positions);
  return made;
}

/// Gives `parts` latent attention as the keys have it, and the heads their width.
void take_latent(const HfKeys& keys, Parts& parts, HfSizes& sizes, std::size_t usual_plain) {
  model::Latent& latent = parts.latent;
  latent.key_rank = keys.size({"kv_lora_rank"}, latent.key_rank);
  // null: queries come from the residual stream.
  latent.query_rank =
      keys.is_null("q_lora_rank") ? 0 : keys.size({"q_lora_rank"}, latent.query_rank);
  latent.rotary_width = keys.size({"qk_rope_head_dim"}, latent.rotary_width);
  latent.value_width = keys.size({"v_head_dim"}, latent.value_width);
  sizes.kv_heads = sizes.heads;
  sizes.head_size = keys.size({"qk_nope_head_dim"}, usual_plain) + latent.rotary_width;
}

/// Takes the lists that name blocks: dense ones (mlp_only_layers), those with experts (moe_layers),
/// or the kind of each (mlp_layer_types).
void take_listed_blocks(const HfKeys& keys, model::Experts& experts, std::size_t layers) {
  const auto list = [&](const char* key) {
    return keys.has(key) && keys.object().at(key).is_array() ? keys.object().at(key)
                                                             : json::array();
  };
  for (const json& block : list("mlp_only_layers")) {
    if (block.is_number_unsigned()) experts.dense.push_back(block.get<std::size_t>());
  }
  const json mixed = list("moe_layers");
  const json kinds = list("mlp_layer_types");
  const bool names_mixed = keys.has("moe_layers") && keys.object().at("moe_layers").is_array();
  if (!names_mixed && kinds.size() != layers) return;
  const model::Experts all;  // of all blocks, which the lists then name one by one
  experts.first = all.first;
  experts.end = all.end;
  experts.interval = all.interval;
  experts.dense.clear();
  for (std::size_t block = 0; block < layers; ++block) {
    const bool dense = names_mixed
                           ? std::find(mixed.begin(), mixed.end(), json(block)) == mixed.end()
                           : kinds[block] == "dense";
    if (dense) experts.dense.push_back(block);
  }
}

/// Gives `parts` experts as the keys have them: how many, of which width, and in which blocks.
void take_experts(const HfKeys& keys, const HfArchitecture& row, Parts& parts,
                  const HfSizes& sizes) {
  model::Experts& experts = parts.experts;
  experts.count = keys.count(
      {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, experts.count);
  experts.per_token =
      keys.count({"num_experts_per_tok", "moe_topk", "moe_k", "moe_top_k"}, experts.per_token);
  if (experts.count > 0 && (experts.per_token == 0 || experts.per_token > experts.count)) {
    throw Error(ExitCode::usage,
                fmt::format("{}: a token goes through {} of {} experts: give num_experts_per_tok "
                            "from 1 to their number",
                            keys.name(), experts.per_token, experts.count));
  }
  experts.width =
      experts.width > 0 ? keys.size({"moe_intermediate_size"}, experts.width) : sizes.mlp;
  if (row.shared_experts > 0) {
    const bool none = keys.is_null("n_shared_experts");
    experts.shared_width =
        experts.width *
        (none ? 0
              : keys.count({"n_shared_experts", "moe_num_shared_experts", "num_shared_experts"},
                           row.shared_experts));
  } else {
    experts.shared_width = keys.count(
        {"shared_expert_intermediate_size", "shared_intermediate_size"}, experts.shared_width);
  }
  experts.first = keys.count({"first_k_dense_replace", "moe_layer_start_index"}, experts.first);
  if (keys.has("moe_layer_end_index") && keys.object().at("moe_layer_end_index") != -1) {
    experts.end = keys.count({"moe_layer_end_index"}, 0) + 1;
  }
  experts.interval =
      keys.size({"decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"}, 1);
  take_listed_blocks(keys, experts, sizes.layers);
}

/// Refuses sizes whose parameters do not fit into 64 bits, and blocks without number.
void require_countable(const HfKeys& keys, const model::Options& model) {
  constexpr std::size_t kMostLayers = 1'000'000;
  const auto real = [](std::size_t size) { return static_cast<double>(size); };
  double most = real(model.hidden_size) * (2 * real(model.vocab_size) + real(model.seq_length));
  for (const bool experts : {false, true}) {
    for (const model::Step& step : model::block_steps(model, experts)) {
      most += real(model.num_layers) * real(step.copies) * real(step.in) * real(step.out);
    }
  }
  if (model.num_layers <= kMostLayers && most < 0x1p62) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: its sizes are of more parameters than can be counted: give a "
                          "config.json of a real model",
                          keys.name()));
}

model::Options model_of(const HfSizes& sizes, const Parts& parts, const std::string& name) {
  model::Options model;
  model.name = name;
  model.num_layers = sizes.layers;
  model.hidden_size = sizes.hidden;
  model.num_attention_heads = sizes.heads;
  model.num_key_value_heads = sizes.kv_heads;
  model.head_dim = sizes.head_size;
  model.ffn_hidden_size = sizes.mlp;
  model.seq_length = sizes.positions;
  model.vocab_size = sizes.vocab;
  model.parts = parts;
  return model;
}

}  // namespace

HfShape read_hf_shape(const HfKeys& keys, const std::string& type) {
  const HfArchitecture* const own = hf_architecture(type);
  refuse_other_decoders(keys, type, own);
  const bool gpt2 = keys.has("n_embd");
  const HfArchitecture& row = own != nullptr ? *own : usual_hf_architecture(gpt2);
  HfSizes sizes = sizes_of(keys, own != nullptr ? row.usual : HfSizes{}, gpt2);
  Parts parts = row.parts;
  for (const HfSwitch& each : row.switches) {
    parts.*each.part = keys.is(each.key, parts.*each.part);
  }
  // The activation says whether an MLP of an unknown type has a gate.
  const std::string activation = keys.text("hidden_act");
  if (own == nullptr && !activation.empty() && !gpt2) {
    parts.gated_mlp = activation == "silu" || activation == "swiglu";
  }
  if (parts.latent.key_rank > 0) take_latent(keys, parts, sizes, row.usual.head_size);
  if (parts.experts.count > 0) take_experts(keys, row, parts, sizes);
  if (row.adjust != nullptr) row.adjust(keys, parts, sizes);
  if (row.padding_positions) parts.position_rows = sizes.positions + *row.padding_positions;
  const std::string_view types = row.types;
  HfShape made{.planned_as = types.substr(0, types.find(',')),
               .known = own != nullptr || type.empty()};
  made.model = model_of(sizes, parts, type.empty() ? std::string(made.planned_as) : type);
  made.model.tied_head = keys.is("tie_word_embeddings", row.tied);
  require_countable(keys, made.model);
  return made;
}

void take_trainers(model::Options& model) {
  if (!model.parts) return;
  for (const char* const name : {"gpt", "llama"}) {
    model::Options trained = model;
    trained.name = name;
    trained.parts.reset();
    trained.add_qkv_bias = model.parts->qkv_bias && name == std::string_view("llama");
    if (model::parts_of(trained) != *model.parts) continue;
    model = trained;
    return;
  }
}

}  // namespace zeropp::plan
