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
nn::AttentionShape largest_attention(const Options& options, const Sizing& sizing, bool causal);

/// Elements of workspace that the largest micro-batch needs.
std::size_t workspace_elements(const Options& options, const Sizing& sizing, bool causal);

/// Bytes rounded up to 256, at multiples of which views of activations, and inputs on the host,
/// begin.
std::size_t aligned_bytes(std::size_t bytes);
/// Sets of views inside blocks: one for all blocks that recompute, where there are some, and one
/// for each of the others.
std::size_t activation_sets(const Options& options);

/// Columns of the gradient inside a block, of the MLP and of attention in turn.
std::size_t wide_gradient(const Options& options);

/// TransformerActivations::bytes(), with A(n) = n rounded up to 256, a the bytes of an activation,
/// L blocks, S = L sets of views inside blocks (1 for all that recompute), M the width of the MLP,
/// and V' the stride of the logits: (L + 4 S + 4 - offloaded_inputs()) A(aRC) + S A(3aRC) + 2 S
/// A(aRM)
/// + A(aR max(3C, M)) + A(aRV') + (4 S + 3) A(4R) + S A(what attention saves).
std::size_t activation_bytes(const Options& options, const Sizing& sizing, bool causal);

/// Bytes that KeptInputs has on the host for inputs of `input_bytes` each: offloaded_inputs() times
/// that, aligned.
std::size_t kept_input_bytes(const Options& options, std::size_t input_bytes);

/// Transformer::memory(): activations, tokens and targets, workspace, the loss.
std::size_t transformer_bytes(const Options& options, const Sizing& sizing, bool causal);
/// Transformer::offloaded_memory().
std::size_t transformer_offloaded_bytes(const Options& options, const Sizing& sizing);

}  // namespace zeropp::model
