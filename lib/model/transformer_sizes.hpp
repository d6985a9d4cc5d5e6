// Memory that a transformer takes, in closed form, whether it runs or is only planned. Pure
// functions; no device. sizing.vocab_size is the model's own. Functions that return bytes throw
// Error(usage) for sizes beyond the arithmetic (representable()).
#pragma once

#include <cstddef>

#include "kernels/nn/nn_sizes.hpp"
#include "lib/model/options.hpp"
#include "lib/model/sizing.hpp"

namespace zeropp::model {

/// Refuses sizes beyond the arithmetic that follows: the matrix library counts in 32-bit integers,
/// and bytes are counted in 64 bits. Returns the options.
const Options& representable(const Options& options, const Sizing& sizing);

/// The attention of the largest micro-batch.
nn::AttentionShape largest_attention(const Options& options, const Sizing& sizing);

/// Elements of workspace that the largest micro-batch needs.
std::size_t workspace_elements(const Options& options, const Sizing& sizing);

/// Bytes rounded up to 256, at multiples of which views of activations, and inputs on the host,
/// begin.
std::size_t aligned_bytes(std::size_t bytes);
/// Sets of views inside blocks: one for all blocks that recompute, where there are some, and one
/// for each of the others.
std::size_t activation_sets(const Options& options);

/// Columns of the gradients inside a block: of its narrow activations, and of the wide ones in
/// turn.
std::size_t narrow_gradient(const Options& options);
std::size_t wide_gradient(const Options& options);

/// TransformerActivations::bytes(), of other parts what it would be. With A(n) = n rounded up to
/// 256 and R rows of values of e bytes: for each block A(eRC) of its input, unless that waits on
/// the host (offloaded_inputs()), and for each set of views inside blocks A(eR kept()) and A(4R)
/// for each statistic of its steps, with what attention saves; blocks that share a set have the
/// largest. Then the same of the steps of embedding and head, A(eRC) of the last residual stream
/// and of its gradient, A(eR) for each column of narrow_gradient(), wide_gradient() and the logits,
/// A(4R) of losses, and A(4 T rotary_width()) with rotary positions.
std::size_t activation_bytes(const Options& options, const Sizing& sizing);

/// Bytes that KeptInputs has on the host for inputs of `input_bytes` each: offloaded_inputs() times
/// that, aligned.
std::size_t kept_input_bytes(const Options& options, std::size_t input_bytes);

/// Transformer::memory(): activations, tokens and targets, workspace, the loss.
std::size_t transformer_bytes(const Options& options, const Sizing& sizing);
/// Transformer::offloaded_memory().
std::size_t transformer_offloaded_bytes(const Options& options, const Sizing& sizing);

}  // namespace zeropp::model
