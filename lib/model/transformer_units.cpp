#include "lib/model/transformer_units.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace zeropp::model {

namespace {

constexpr float kSpread = 0.02F;

zero::Tensor matrix(std::string name, std::size_t out, std::size_t in, float scale) {
  return {.name = std::move(name),
          .shape = {out, in},
          .init = {.constant = 0.0F, .scale = scale},
          .decay = true};
}

zero::Tensor vector(std::string name, std::size_t count, float constant) {
  return {.name = std::move(name),
          .shape = {count},
          .init = {.constant = constant, .scale = 0.0F},
          .decay = false};
}

/// Marks a unit of layers that write each gradient as a whole; the embedding's are added up, token
/// by token, and a tied head adds to them.
zero::Unit written_once(zero::Unit unit) {
  unit.gradients_written_once = true;
  return unit;
}

using Parameters = std::vector<std::pair<Role, zero::Tensor>>;

/// Weight and, of layer normalisation, bias of a norm.
void add_norm(Parameters& to, const Options& options, Role role, const std::string& name) {
  to.emplace_back(role, vector(name + ".weight", options.hidden_size, 1.0F));
  if (parts_of(options).rms_norm) return;
  const Role bias = static_cast<Role>(role + 1);
  to.emplace_back(bias, vector(name + ".bias", options.hidden_size, 0.0F));
}

/// A matrix and, where it has one, its bias.
void add_linear(Parameters& to, Role role, const std::string& name, std::size_t out, std::size_t in,
                float scale, bool bias) {
  to.emplace_back(role, matrix(name + ".weight", out, in, scale));
  if (bias) to.emplace_back(static_cast<Role>(role + 1), vector(name + ".bias", out, 0.0F));
}

Parameters embedding_parameters(const Options& options, std::size_t vocab_size) {
  const std::size_t hidden = options.hidden_size;
  Parameters made;
  made.emplace_back(kTokenTable, matrix("wte.weight", vocab_size, hidden, kSpread));
  if (!parts_of(options).rotary) {
    made.emplace_back(kPositionTable, matrix("wpe.weight", options.seq_length, hidden, kSpread));
  }
  return made;
}

Parameters block_parameters(const Options& options, const std::string& prefix) {
  const std::size_t hidden = options.hidden_size;
  const Parts parts = parts_of(options);
  const float residual = kSpread / std::sqrt(2.0F * static_cast<float>(options.num_layers));
  Parameters made;
  add_norm(made, options, kLn1Weight, prefix + ".ln_1");
  add_linear(made, kQkvWeight, prefix + ".attn.qkv", qkv_width(options), hidden, kSpread,
             parts.qkv_bias);
  add_linear(made, kAttentionWeight, prefix + ".attn.proj", hidden, query_width(options), residual,
             parts.other_biases);
  add_norm(made, options, kLn2Weight, prefix + ".ln_2");
  add_linear(made, kFcWeight, prefix + (parts.gated_mlp ? ".mlp.gate_up" : ".mlp.fc"),
             fc_width(options), hidden, kSpread, parts.other_biases);
  add_linear(made, kMlpWeight, prefix + ".mlp.proj", hidden, ffn_width(options), residual,
             parts.other_biases);
  return made;
}

Parameters head_parameters(const Options& options, std::size_t vocab_size) {
  Parameters made;
  add_norm(made, options, kLnFWeight, "ln_f");
  if (!options.tied_head) {
    made.emplace_back(kHeadWeight,
                      matrix("lm_head.weight", vocab_size, options.hidden_size, kSpread));
  }
  return made;
}

zero::Unit unit_of(std::string name, Parameters parameters) {
  std::vector<zero::Tensor> tensors;
  for (auto& [role, tensor] : parameters) tensors.push_back(std::move(tensor));
  return zero::layout_unit(std::move(name), std::move(tensors));
}

double product(std::size_t a, std::size_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

/// Weights of a block's matrices but the last, which a block that recomputes does not use again.
double first_matrices(const Options& options) {
  return product(options.hidden_size,
                 qkv_width(options) + query_width(options) + fc_width(options));
}

double block_matrices(const Options& options) {
  return first_matrices(options) + product(options.hidden_size, ffn_width(options));
}

/// Operations a token of attention's scores and sums, forward.
double attention_flops(const Options& options) {
  return 4.0 * product(options.seq_length, query_width(options));
}

/// Operations a token that a block does again: those of its forward but for the last product.
double recomputed_flops(const Options& options) {
  return 2.0 * first_matrices(options) + attention_flops(options);
}

}  // namespace

TensorPlaces::TensorPlaces(const Options& options) {
  places_.fill(kAbsent);
  for (const Parameters& unit : {embedding_parameters(options, 1), block_parameters(options, "h"),
                                 head_parameters(options, 1)}) {
    for (std::size_t i = 0; i < unit.size(); ++i) places_[unit[i].first] = i;
  }
}

std::vector<zero::Unit> transformer_units(const Options& options, std::size_t vocab_size) {
  std::vector<zero::Unit> units;
  units.push_back(unit_of("embedding", embedding_parameters(options, vocab_size)));
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    const std::string name = "h." + std::to_string(block);
    units.push_back(written_once(unit_of(name, block_parameters(options, name))));
  }
  units.push_back(written_once(unit_of("head", head_parameters(options, vocab_size))));
  return units;
}

std::vector<zero::Layer> transformer_layers(const Options& options) {
  std::vector<zero::Layer> layers = {{"embedding", {0}}};
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    layers.push_back({"h." + std::to_string(block), {block + 1}});
  }
  const std::size_t head = options.num_layers + 1;
  layers.push_back({"head", options.tied_head ? std::vector<std::size_t>{head, 0}
                                              : std::vector<std::size_t>{head}});
  return layers;
}

double transformer_flops_per_token(const Options& options, std::size_t vocab_size) {
  const auto blocks = static_cast<double>(options.num_layers);
  return 6.0 * (blocks * block_matrices(options) + product(vocab_size, options.hidden_size)) +
         3.0 * blocks * attention_flops(options);
}

double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size) {
  const double once = transformer_flops_per_token(options, vocab_size);
  const std::size_t recomputing = recomputing_blocks(options);
  if (recomputing == 0) return once;
  const auto again = static_cast<double>(recomputing - 1);  // the last is still there
  return once + again * recomputed_flops(options);
}

std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size) {
  const double block = 6.0 * block_matrices(options) + 3.0 * attention_flops(options);
  const double again = recomputed_flops(options);
  const double head = 6.0 * product(vocab_size, options.hidden_size);
  std::vector<LayerFlops> flops{{}};  // the embedding looks up and adds
  std::size_t left = recomputing_blocks(options);
  for (std::size_t i = 0; i < options.num_layers; ++i) {
    const bool recomputed = recomputes(options, i) && --left > 0;  // the last is still there
    flops.push_back({block, block + (recomputed ? again : 0.0)});
  }
  flops.push_back({head, head});
  return flops;
}

}  // namespace zeropp::model
