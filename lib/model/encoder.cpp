#include "lib/model/encoder.hpp"

namespace zeropp::model {

namespace {

Context with_mask_token(Context context) {
  context.vocab_size = Encoder::effective_vocab_size(context.vocab_size);
  return context;
}

}  // namespace

Encoder::Encoder(const Options& options, const Context& context)
    : Transformer(options, with_mask_token(context), kCausal), vocab_(context.vocab_size) {}

void Encoder::begin(const zero::Batch& batch, bool train, StreamHandle stream) {
  require_fits(batch);
  require_in_vocabulary(batch.tokens, vocab_);
  mask_tokens(batch.tokens, batch.length, vocab_, masked_);
  load({batch.sequences, batch.length, masked_.tokens, masked_.targets, batch.loss_scale},
       batch.sequences * masked_tokens(batch.length), train, stream);
}

}  // namespace zeropp::model
