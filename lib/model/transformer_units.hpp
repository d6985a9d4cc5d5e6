// The parameters of a decoder, those of its steps (steps.hpp): which tensors make up which unit, in
// which order. Matrices are [out, in], of experts [experts, out, in]; weight decay applies to
// matrices, and to the others where the optimizer's options ask for all.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "lib/model/description.hpp"
#include "lib/model/options.hpp"
#include "lib/model/steps.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Positions of the tensors of the trainer's models in their units, the same in all blocks.
class TensorPlaces {
 public:
  explicit TensorPlaces(const Options& options);

  [[nodiscard]] bool has(Role role) const { return places_[role] != kAbsent; }
  /// The part of the unit's flat buffer that is the tensor; an empty view where there is none.
  template <class AnyView>
  [[nodiscard]] AnyView tensor(const zero::Unit& unit, const AnyView& flat, Role role) const {
    if (!has(role)) return {};
    const zero::Tensor& tensor = unit.tensors[places_[role]];
    return flat.part(tensor.offset, tensor.count());
  }

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  std::array<std::size_t, kRoles> places_;
};

std::vector<zero::Unit> transformer_units(const Options& options, std::size_t vocab_size);
/// Parameters of all units together, and those of them that one token goes through.
struct ParameterCount {
  std::size_t all = 0;
  std::size_t active = 0;
};
ParameterCount transformer_parameters(const Options& options, std::size_t vocab_size);
std::vector<zero::Layer> transformer_layers(const Options& options);

/// Operations per token: three times those of forward (step_flops()), for backward makes two
/// products of each. They are PaLM's formula (arXiv 2204.02311 appendix B): of GPT-2's and Llama's
/// parts 6 (L (C (Q + 2 K) + Q C + m C M) + V C) + 12 L T Q, with Q and K columns of queries and
/// keys, M = ffn_width(), m = 2, or 3 of a gated MLP. Experts count that a token goes through.
double transformer_flops_per_token(const Options& options, std::size_t vocab_size);
/// Operations that the hardware does: with R blocks that recompute, the forward of R - 1 of them
/// again, but for the steps that end a block: of those parts
/// 2 (C (Q + 2 K) + Q C + (m - 1) C M) + 4 T Q each.
double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size);

/// Operations of each layer of transformer_layers().
std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size);

}  // namespace zeropp::model
