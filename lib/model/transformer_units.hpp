// The parameters of a decoder, GPT-2's or Llama's: which tensors make up which unit, in which
// order. Matrices are [out, in]; weight decay applies to matrices, and to the others where the
// optimizer's options ask for all.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "lib/model/description.hpp"
#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Purpose of a tensor in its unit: "embedding", "h.<i>" or "head". A model has some of them.
enum Role : std::size_t {
  kTokenTable,
  kPositionTable,
  kLn1Weight,
  kLn1Bias,
  kQkvWeight,  ///< rows of the queries of all heads, of the keys, and of the values
  kQkvBias,
  kAttentionWeight,
  kAttentionBias,
  kLn2Weight,
  kLn2Bias,
  kFcWeight,  ///< of a gated MLP rows of the gate, then of up
  kFcBias,
  kMlpWeight,
  kMlpBias,
  kLnFWeight,
  kLnFBias,
  kHeadWeight,  ///< where the head is not tied
  kRoles
};

/// Positions of the tensors in their units, the same in all blocks.
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
std::vector<zero::Layer> transformer_layers(const Options& options);

/// Operations a token: 6 (L (C (Q + 2 K) + Q C + m C M) + V C) + 12 L T Q, with Q and K columns of
/// queries and keys, M = ffn_width(), m = 2, or 3 of a gated MLP. They are two for the multiply and
/// add of each weight of a matrix in forward and four in backward, and the same for the scores and
/// sums of attention over all T positions (PaLM's formula, arXiv 2204.02311 appendix B; the masked
/// half is counted).
double transformer_flops_per_token(const Options& options, std::size_t vocab_size);
/// Operations that the hardware does: with R blocks that recompute
/// (R - 1) (2 (C (Q + 2 K) + Q C + (m - 1) C M) + 4 T Q) more than transformer_flops_per_token().
/// They are two for each weight of a block's products but its last, and attention's forward, in all
/// of the blocks but the last.
double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size);

/// Operations of each layer of transformer_layers().
std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size);

}  // namespace zeropp::model
