// The memory of a GPT between forward and backward: one buffer, allocated once for the largest
// micro-batch and reused by every micro-batch and evaluation. R = sequences * length rows, C =
// hidden size, V = logits_stride(vocabulary). Row-major; matrices are of the back end's activation
// dtype, what holds one value a row is fp32.
#pragma once

#include <vector>

#include "kernels/nn/nn_ops.hpp"
#include "lib/device/buffer.hpp"
#include "lib/model/context.hpp"
#include "lib/model/options.hpp"

namespace zeropp::model {

/// What a block keeps from forward for its backward.
struct BlockActivations {
  View ln_1, ln_1_mean, ln_1_rstd;  ///< [R, C], [R], [R]
  View qkv;                         ///< [R, 3C]
  View attention_saved;             ///< what the back end's attention keeps for backward
  View attention;                   ///< [R, C]
  View middle;                      ///< [R, C] residual stream between attention and MLP
  View ln_2, ln_2_mean, ln_2_rstd;  ///< [R, C], [R], [R]
  View fc, gelu;                    ///< [R, 4C]
  View output;                      ///< [R, C] residual stream after the block
};

struct GptActivations {
  /// Throws Error(environment) when there is no memory for them.
  GptActivations(const Options& options, const Context& context);

  /// The residual stream [R, C] that block `block` reads; block = number of blocks: the head's.
  [[nodiscard]] View input_of(std::size_t block) const {
    return block == 0 ? embedding : blocks[block - 1].output;
  }

  View embedding;  ///< [R, C]
  std::vector<BlockActivations> blocks;
  View ln_f, ln_f_mean, ln_f_rstd;  ///< [R, C], [R], [R]
  View logits;                      ///< [R, V]; after the loss their gradient
  View row_loss;                    ///< [R]
  View d_residual;                  ///< [R, C] gradient of the residual stream, from the top down
  View d_hidden;                    ///< [R, C] gradient inside a block
  View d_wide;                      ///< [R, 4C] gradient inside a block

  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }
  /// bytes() in closed form, with A(n) = n rounded up to 256, a the bytes of an activation, L
  /// blocks and V' the stride of the logits: (5 L + 4) A(aRC) + L A(3aRC) + (2 L + 1) A(4aRC) +
  /// A(aRV')
  /// + (4 L + 3) A(4R) + L A(what attention saves).
  static std::size_t predicted_bytes(const Options& options, const Context& context);

 private:
  Buffer memory_;
};

}  // namespace zeropp::model
