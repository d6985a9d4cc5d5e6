// GPT-2 (Radford et al., 2019) as a model of the ZeRO engine: a transformer whose attention is
// causal, and whose every token predicts the next.
#pragma once

#include "lib/model/transformer.hpp"

namespace zeropp::model {

class Gpt final : public Transformer {
 public:
  /// Constructs a causal Transformer.
  Gpt(const Options& options, const Context& context)
      : Transformer(options, context, kCausal), vocab_(context.vocab_size) {}

  static constexpr bool kCausal = true;
  static std::size_t effective_vocab_size(std::size_t of_source) { return of_source; }

  /// Copies tokens and targets. Throws Error(usage) for a batch over the limits or a token outside
  /// the vocabulary.
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override {
    require_fits(batch);
    require_in_vocabulary(batch.tokens, vocab_);
    require_in_vocabulary(batch.targets, vocab_);
    load(batch, batch.targets.size(), train, stream);
  }

 private:
  std::size_t vocab_;
};

}  // namespace zeropp::model
