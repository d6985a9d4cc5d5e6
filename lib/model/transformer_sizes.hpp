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

/// Columns of the gradients inside a block: of its narrow activations, and of the wide ones in turn.
std::size_t narrow_gradient(const Options& options);
std::size_t wide_gradient(const Options& options);

/// TransformerActivations::bytes(), with A(n) = n rounded up to 256, a the bytes of an activation,
/// L blocks, S = L sets of views inside blocks (1 for all that recompute), Q and K columns of
/// queries and keys, M the width of the MLP, m = 1 (2 of a gated MLP), n = 2 (1 of RMS
/// normalisation) statistics of a norm's row, w the width of a head, and V' the stride of the
/// logits: (L + 3 S + 3 - offloaded_inputs()) A(aRC) + A(aR max(C, Q)) + S (A(aR(Q + 2 K)) + A(aRQ)
/// + A(aRmM) + A(aRM)) + A(aR max(Q + 2 K, M)) + A(aRV') + (2 n S + n + 1) A(4R)
/// + S A(what attention saves) + A(4Tw) with rotary positions.
std::size_t activation_bytes(const Options& options, const Sizing& sizing);

/// Bytes that KeptInputs has on the host for inputs of `input_bytes` each: offloaded_inputs() times
/// that, aligned.
std::size_t kept_input_bytes(const Options& options, std::size_t input_bytes);

/// Transformer::memory(): activations, tokens and targets, workspace, the loss.
std::size_t transformer_bytes(const Options& options, const Sizing& sizing);
/// Transformer::offloaded_memory().
std::size_t transformer_offloaded_bytes(const Options& options, const Sizing& sizing);

}  // namespace zeropp::model
