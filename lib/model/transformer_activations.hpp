// The memory of a transformer between forward and backward: one buffer, allocated once for the
// largest micro-batch and reused by every micro-batch and evaluation. R = sequences * length rows,
// C = hidden size, Q = query_width(), W = qkv_width(), F = fc_width(), M = ffn_width(),
// V = logits_stride(vocabulary). Row-major; matrices are of the
// back end's activation dtype, what holds one value a row is fp32.
//
// With recompute_activations (Chen et al., arXiv 1604.06174) a forward pass keeps only the residual
// stream between blocks of every recompute_interval-th block. These blocks share one set of views
// for the activations inside them; the block whose backward is due fills the set again. With
// cpu_checkpointing the inputs of these blocks take turns in kInputSlots views (KeptInputs).
#pragma once

#include <vector>

#include "kernels/nn/nn_ops.hpp"
#include "lib/device/buffer.hpp"
#include "lib/model/context.hpp"
#include "lib/model/options.hpp"

namespace zeropp::model {

/// Activations that a block's backward reads of its forward, but for the block's input. RMS
/// normalisation has no means: their views are empty.
struct BlockActivations {
  View ln_1, ln_1_mean, ln_1_rstd;  ///< [R, C], [R], [R]
  View qkv;                         ///< [R, W]
  View attention_saved;             ///< what the back end's attention keeps for backward
  View attention;                   ///< [R, Q]
  View middle;                      ///< [R, C] residual stream between attention and MLP
  View ln_2, ln_2_mean, ln_2_rstd;  ///< [R, C], [R], [R]
  View fc;                          ///< [R, F]; backward of a gated MLP leaves its gradient there
  View activated;                   ///< [R, M]
  std::size_t block = 0;            ///< whose content this is; set by who fills it
};

struct TransformerActivations {
  /// Throws Error(environment) when there is no memory for them.
  TransformerActivations(const Options& options, const Context& context);

  /// Activations of block `block`, which it may share with other blocks.
  [[nodiscard]] BlockActivations& inside(std::size_t block) { return blocks[set_of_[block]]; }

  /// [R, C] each: the residual stream that block i reads; after the last block, that of the head.
  /// Some share their memory where offloaded_inputs() is not 0.
  std::vector<View> residual;
  /// Sets of activations: one for all blocks that recompute, where there are some, and one for each
  /// of the others.
  std::vector<BlockActivations> blocks;
  View ln_f, ln_f_mean, ln_f_rstd;  ///< [R, C], [R], [R]
  View logits;                      ///< [R, V]; after the loss their gradient
  View row_loss;                    ///< [R]
  View d_residual;                  ///< [R, C] gradient of the residual stream, from the top down
  View d_narrow;                    ///< [R, max(C, Q)] gradient inside a block
  View d_wide;                      ///< [R, max(W, M)] gradient inside a block
  View angles;                      ///< [T, w / 2, 2] fp32 of rotary positions, filled when made

  /// Bytes of the activations; in closed form activation_bytes() of transformer_sizes.hpp.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  /// cos and sin of t theta^(-2 i / w) (Su et al., arXiv 2104.09864, section 3.2.2), worked out in
  /// fp64.
  void fill_angles(const Options& options, const Device& device);

  std::vector<std::size_t> set_of_;  ///< by block
  Buffer memory_;
};

}  // namespace zeropp::model
