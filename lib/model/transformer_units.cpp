#include "lib/model/transformer_units.hpp"

#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace zeropp::model {

namespace {

constexpr float kSpread = 0.02F;

zero::Tensor matrix(std::string name, std::vector<std::size_t> shape, float scale) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = {.constant = 0.0F, .scale = scale},
          .decay = true};
}

zero::Tensor vector(std::string name, std::vector<std::size_t> shape, float constant) {
  return {.name = std::move(name),
          .shape = std::move(shape),
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

/// The tensors of one step: a matrix or a vector, and a bias.
void add_step(Parameters& to, const Options& options, const Step& step, const std::string& name) {
  const auto bias_role = static_cast<Role>(step.role < kPlanned ? step.role + 1 : kPlanned);
  const auto of_copies = [&](std::vector<std::size_t> shape) {
    if (step.copies > 1) shape.insert(shape.begin(), step.copies);
    return shape;
  };
  if (step.kind == StepKind::product) {
    const float scale = step.residual
                            ? kSpread / std::sqrt(2.0F * static_cast<float>(options.num_layers))
                            : kSpread;
    to.emplace_back(step.role, matrix(name + ".weight", of_copies({step.out, step.in}), scale));
    if (step.bias) to.emplace_back(bias_role, vector(name + ".bias", of_copies({step.out}), 0.0F));
  } else if (step.vector > 0) {
    to.emplace_back(step.role, vector(name + ".weight", {step.vector}, 1.0F));
    if (step.bias) to.emplace_back(bias_role, vector(name + ".bias", {step.vector}, 0.0F));
  }
}

Parameters embedding_parameters(const Options& options, std::size_t vocab_size) {
  const std::size_t rows = parts_of(options).position_rows;
  Parameters made;
  made.emplace_back(kTokenTable, matrix("wte.weight", {vocab_size, table_width(options)}, kSpread));
  if (rows > 0) {
    made.emplace_back(kPositionTable, matrix("wpe.weight", {rows, options.hidden_size}, kSpread));
  }
  for (const Step& step : embedding_steps(options)) {
    add_step(made, options, step, std::string(step.name));
  }
  return made;
}

Parameters block_parameters(const Options& options, const std::vector<Step>& steps,
                            const std::string& prefix) {
  Parameters made;
  for (const Step& step : steps) {
    add_step(made, options, step, prefix + "." + std::string(step.name));
  }
  return made;
}

Parameters head_parameters(const Options& options, std::size_t vocab_size) {
  Parameters made;
  for (const Step& step : head_steps(options)) {
    add_step(made, options, step, std::string(step.name));
  }
  if (!options.tied_head) {
    made.emplace_back(kHeadWeight,
                      matrix("lm_head.weight", {vocab_size, table_width(options)}, kSpread));
  }
  if (parts_of(options).head_bias) {
    made.emplace_back(kPlanned, vector("lm_head.bias", {vocab_size}, 0.0F));
  }
  return made;
}

zero::Unit unit_of(std::string name, Parameters parameters) {
  std::vector<zero::Tensor> tensors;
  for (auto& [role, tensor] : parameters) tensors.push_back(std::move(tensor));
  return zero::layout_unit(std::move(name), std::move(tensors));
}

/// Operations per token of a block, and those of them that a block that recomputes does again.
struct BlockFlops {
  double forward = 0;
  double again = 0;
};

BlockFlops block_flops(const Options& options, const std::vector<Step>& steps) {
  BlockFlops flops;
  for (const Step& step : steps) {
    const double own = step_flops(step, options);
    flops.forward += own;
    if (!step.ends) flops.again += own;
  }
  return flops;
}

double head_flops(const Options& options, std::size_t vocab_size) {
  const Step matrix{.in = table_width(options), .out = vocab_size};
  return step_flops(matrix, options) + block_flops(options, head_steps(options)).forward;
}

}  // namespace

TensorPlaces::TensorPlaces(const Options& options) {
  places_.fill(kAbsent);
  for (const Parameters& unit :
       {embedding_parameters(options, 1),
        block_parameters(options, block_steps(options, false), "h"), head_parameters(options, 1)}) {
    for (std::size_t i = 0; i < unit.size(); ++i) {
      if (unit[i].first < kRoles) places_[unit[i].first] = i;
    }
  }
}

std::vector<zero::Unit> transformer_units(const Options& options, std::size_t vocab_size) {
  const Parts parts = parts_of(options);
  std::vector<zero::Unit> units;
  units.push_back(unit_of("embedding", embedding_parameters(options, vocab_size)));
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    const std::string name = "h." + std::to_string(block);
    const std::vector<Step> steps = block_steps(options, has_experts(parts, block));
    units.push_back(written_once(unit_of(name, block_parameters(options, steps, name))));
  }
  units.push_back(written_once(unit_of("head", head_parameters(options, vocab_size))));
  return units;
}

ParameterCount transformer_parameters(const Options& options, std::size_t vocab_size) {
  ParameterCount made;
  const auto add = [&](const Parameters& tensors, std::size_t times, const Step& step) {
    for (const auto& [role, tensor] : tensors) {
      made.all += times * tensor.count();
      made.active += times * (tensor.count() / step.copies * step.uses);
    }
  };
  add(embedding_parameters(options, vocab_size), 1, {});
  add(head_parameters(options, vocab_size), 1, {});
  for (const BlockKind& kind : block_kinds(options)) {
    for (const Step& step : kind.steps) {
      add(block_parameters(options, {step}, ""), kind.blocks, step);
    }
  }
  return made;
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
  double flops = 0;
  for (const LayerFlops& layer : transformer_layer_flops(options, vocab_size)) {
    flops += layer.model;
  }
  return flops;
}

double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size) {
  double flops = 0;
  for (const LayerFlops& layer : transformer_layer_flops(options, vocab_size)) {
    flops += layer.hardware;
  }
  return flops;
}

std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size) {
  const Parts parts = parts_of(options);
  std::array<BlockFlops, 2> of_kind;  // dense, with experts
  for (const BlockKind& kind : block_kinds(options)) {
    of_kind.at(kind.experts ? 1 : 0) = block_flops(options, kind.steps);
  }
  const double embedding = 3.0 * block_flops(options, embedding_steps(options)).forward;
  const double head = 3.0 * head_flops(options, vocab_size);
  std::vector<LayerFlops> flops{{embedding, embedding}};  // looking up and adding do not count
  std::size_t left = recomputing_blocks(options);
  for (std::size_t i = 0; i < options.num_layers; ++i) {
    const BlockFlops& block = of_kind.at(has_experts(parts, i) ? 1 : 0);
    const bool recomputed = recomputes(options, i) && --left > 0;  // the last is still there
    const double once = 3.0 * block.forward;
    flops.push_back({once, once + (recomputed ? block.again : 0.0)});
  }
  flops.push_back({head, head});
  return flops;
}

}  // namespace zeropp::model
