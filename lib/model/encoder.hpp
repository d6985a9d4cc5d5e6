// A bidirectional encoder (as BERT, arXiv 1810.04805, with pre-norm blocks) as a model of the ZeRO
// engine: a transformer whose tokens attend to all of their sequence, and that predicts the tokens
// which were masked in its input (lib/model/token_masking.hpp). A batch's own targets are not read.
//
// The loss is the mean over the masked tokens, in nats each. The vocabulary has one token more than
// the source's, the mask token, which is the last: a row of the token embedding, and a logit.
#pragma once

#include "lib/model/token_masking.hpp"
#include "lib/model/transformer.hpp"

namespace zeropp::model {

class Encoder final : public Transformer {
 public:
  /// Constructs a Transformer with a vocabulary of context.vocab_size and the mask token.
  Encoder(const Options& options, const Context& context);

  static constexpr bool kCausal = false;
  /// Number of tokens of the source and the mask token.
  static std::size_t effective_vocab_size(std::size_t of_source) { return of_source + 1; }

  /// Copies the tokens, masked. Throws Error(usage) for a batch over the limits or a token outside
  /// the vocabulary.
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override;

 private:
  std::size_t vocab_;  ///< of the source
  MaskedBatch masked_;
};

}  // namespace zeropp::model
