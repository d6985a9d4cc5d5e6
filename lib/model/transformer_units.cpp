#include "lib/model/transformer_units.hpp"

#include <cmath>
#include <string>

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

zero::Unit block_unit(const Options& options, std::size_t block) {
  const std::size_t hidden = options.hidden_size;
  const std::size_t wide = mlp_width(options);
  const float residual = kSpread / std::sqrt(2.0F * static_cast<float>(options.num_layers));
  const std::string prefix = "h." + std::to_string(block);
  return written_once(zero::layout_unit(
      prefix,
      {vector(prefix + ".ln_1.weight", hidden, 1.0F), vector(prefix + ".ln_1.bias", hidden, 0.0F),
       matrix(prefix + ".attn.qkv.weight", 3 * hidden, hidden, kSpread),
       vector(prefix + ".attn.qkv.bias", 3 * hidden, 0.0F),
       matrix(prefix + ".attn.proj.weight", hidden, hidden, residual),
       vector(prefix + ".attn.proj.bias", hidden, 0.0F),
       vector(prefix + ".ln_2.weight", hidden, 1.0F), vector(prefix + ".ln_2.bias", hidden, 0.0F),
       matrix(prefix + ".mlp.fc.weight", wide, hidden, kSpread),
       vector(prefix + ".mlp.fc.bias", wide, 0.0F),
       matrix(prefix + ".mlp.proj.weight", hidden, wide, residual),
       vector(prefix + ".mlp.proj.bias", hidden, 0.0F)}));
}

/// Weights of a block's four matrices.
double block_matrices(const Options& options) {
  const auto hidden = static_cast<double>(options.hidden_size);
  return 2.0 * hidden * (2.0 * hidden + static_cast<double>(mlp_width(options)));
}

/// Operations a token that a block does again: those of its forward but for the last product.
double recomputed_flops(const Options& options) {
  const auto hidden = static_cast<double>(options.hidden_size);
  return 2.0 * hidden * (4.0 * hidden + static_cast<double>(mlp_width(options))) +
         4.0 * static_cast<double>(options.seq_length) * hidden;
}

}  // namespace

std::vector<zero::Unit> transformer_units(const Options& options, std::size_t vocab_size) {
  const std::size_t hidden = options.hidden_size;
  std::vector<zero::Unit> units;
  units.push_back(
      zero::layout_unit("embedding", {matrix("wte.weight", vocab_size, hidden, kSpread),
                                      matrix("wpe.weight", options.seq_length, hidden, kSpread)}));
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    units.push_back(block_unit(options, block));
  }
  std::vector<zero::Tensor> head = {vector("ln_f.weight", hidden, 1.0F),
                                    vector("ln_f.bias", hidden, 0.0F)};
  if (!options.tied_head) head.push_back(matrix("lm_head.weight", vocab_size, hidden, kSpread));
  units.push_back(written_once(zero::layout_unit("head", std::move(head))));
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
  const auto hidden = static_cast<double>(options.hidden_size);
  const auto blocks = static_cast<double>(options.num_layers);
  const double matrices =
      blocks * block_matrices(options) + static_cast<double>(vocab_size) * hidden;
  return 6.0 * matrices + 12.0 * blocks * static_cast<double>(options.seq_length) * hidden;
}

double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size) {
  const double once = transformer_flops_per_token(options, vocab_size);
  const std::size_t recomputing = recomputing_blocks(options);
  if (recomputing == 0) return once;
  const auto again = static_cast<double>(recomputing - 1);  // the last is still there
  return once + again * recomputed_flops(options);
}

std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size) {
  const auto hidden = static_cast<double>(options.hidden_size);
  const auto length = static_cast<double>(options.seq_length);
  const double block = 6.0 * block_matrices(options) + 12.0 * length * hidden;
  const double again = recomputed_flops(options);
  const double head = 6.0 * static_cast<double>(vocab_size) * hidden;
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
