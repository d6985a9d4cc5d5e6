// Masked-token prediction (Devlin et al., BERT, arXiv 1810.04805, section 3.1): of every sequence
// 15 % of the tokens are to be predicted; of these 80 % are replaced by the mask token, 10 % by a
// random one, and 10 % stay.
//
// Which ones is drawn from a counter-based generator that is keyed by the sequence's own tokens: a
// sequence is masked alike on whichever rank, in whichever micro-step and at whichever world size
// it occurs, after a restart, and in every evaluation. The number depends on the length alone, so
// that all micro-batches of a step have the same weight, and the mean of their mean losses is the
// mean over all tokens that count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zeropp::model {

/// Target of a token that is not to be predicted.
inline constexpr std::int32_t kNoTarget = -1;

/// Tokens of a sequence that are to be predicted: 15 % of its length, rounded to nearest, and at
/// least one.
std::size_t masked_tokens(std::size_t length);

struct MaskedBatch {
  std::vector<std::int32_t> tokens;   ///< what the model reads
  std::vector<std::int32_t> targets;  ///< the original token where it is to be predicted, kNoTarget
};

/// Masks every sequence of `length` of the tokens, which are in [0, vocab); vocab itself is the
/// mask token. Replaces the content of `masked`.
void mask_tokens(std::span<const std::int32_t> tokens, std::size_t length, std::size_t vocab,
                 MaskedBatch& masked);

}  // namespace zeropp::model
