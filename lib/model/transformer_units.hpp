// The parameters of a transformer as GPT-2 has them: which tensors make up which unit, in which
// order. Matrices are [out, in]; weight decay applies to matrices, and to the others where the
// optimizer's options ask for all.
#pragma once

#include <vector>

#include "lib/model/description.hpp"
#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Tensors of unit "embedding", by position.
enum EmbeddingTensor : std::size_t { kTokenTable, kPositionTable };
/// Tensors of unit "h.<i>".
enum BlockTensor : std::size_t {
  kLn1Weight,
  kLn1Bias,
  kQkvWeight,
  kQkvBias,
  kAttentionWeight,
  kAttentionBias,
  kLn2Weight,
  kLn2Bias,
  kFcWeight,
  kFcBias,
  kMlpWeight,
  kMlpBias
};
/// Tensors of unit "head"; kHeadWeight only where the head is not tied.
enum HeadTensor : std::size_t { kLnFWeight, kLnFBias, kHeadWeight };

std::vector<zero::Unit> transformer_units(const Options& options, std::size_t vocab_size);
std::vector<zero::Layer> transformer_layers(const Options& options);

/// Operations a token: 6 (L (4 C^2 + 2 C M) + V C) + 12 L T C, M = mlp_width(). They are two for
/// the multiply and add of each weight of a matrix in forward and four in backward, and the same
/// for the scores and sums of attention over all T positions (PaLM's formula, arXiv 2204.02311
/// appendix B; the masked half is counted).
double transformer_flops_per_token(const Options& options, std::size_t vocab_size);
/// Operations that the hardware does: with K blocks that recompute (K - 1) (8 C^2 + 2 C M + 4 T C)
/// more than transformer_flops_per_token(). They are two for each weight of a block's products but
/// its last, and attention's forward, in all of the blocks but the last.
double transformer_hardware_flops_per_token(const Options& options, std::size_t vocab_size);

/// Operations of each layer of transformer_layers().
std::vector<LayerFlops> transformer_layer_flops(const Options& options, std::size_t vocab_size);

/// Tensor `index` inside the flat buffer of `unit`.
template <class AnyView>
AnyView tensor_of(const zero::Unit& unit, const AnyView& flat, std::size_t index) {
  const zero::Tensor& tensor = unit.tensors[index];
  return flat.part(tensor.offset, tensor.count());
}

}  // namespace zeropp::model
