#include "lib/model/transformer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/device/range.hpp"

namespace zeropp::model {

namespace {
using Category = trace::Timers::Category;

void require_in_vocabulary(std::span<const std::int32_t> tokens, std::size_t vocab) {
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [vocab](std::int32_t token) {
    return token < 0 || static_cast<std::size_t>(token) >= vocab;
  });
  if (outside == tokens.end()) return;
  throw Error(
      ExitCode::usage,
      fmt::format("token {} is outside the model's vocabulary of {}: give a larger --vocab-size",
                  *outside, vocab));
}

}  // namespace

Transformer::Transformer(const Options& options, const Context& context)
    : options_(representable(options, context.sizing())),
      parts_(parts_of(options)),
      micro_batch_(context.micro_batch),
      vocab_(context.vocab_size),
      ops_(*context.device.nn),
      memory_ops_(*context.device.memory_ops),
      timers_(context.timers),
      products_(context.timers),
      deterministic_(context.deterministic),
      autotune_(context.autotune),
      places_(options),
      units_(transformer_units(options, vocab_)),
      layers_(transformer_layers(options)),
      activations_(options, context),
      kept_inputs_(options, activations_.residual, context.device),
      input_(context.micro_batch * options.seq_length, context.device),
      workspace_(workspace_elements(options, context.sizing()) * sizeof(float),
                 context.device.memory),
      loss_(Buffer::zeros(2, Dtype::fp32, context.device.memory)),
      predicted_bytes_(transformer_bytes(options, context.sizing())),
      predicted_offloaded_bytes_(transformer_offloaded_bytes(options, context.sizing())),
      kernels_(fmt::format(
          "attention={}{}",
          ops_.attention_name(largest_attention(options, context.sizing()), context.compute),
          context.autotune ? ", products=tuned" : "")) {}

zero::MemoryReport Transformer::memory() const {
  return {"activations", predicted_bytes_,
          activations_.bytes() + input_.bytes() + workspace_.bytes() + loss_.bytes()};
}

std::vector<zero::MemoryReport> Transformer::offloaded_memory() const {
  if (predicted_offloaded_bytes_ == 0) return {};
  return {{"offloaded_activations", predicted_offloaded_bytes_, kept_inputs_.bytes()}};
}

void Transformer::begin(const zero::Batch& batch, bool train, StreamHandle stream) {
  const std::size_t rows = batch.sequences * batch.length;
  if (rows == 0 || batch.sequences > micro_batch_ || batch.length > options_.seq_length ||
      batch.tokens.size() != rows || batch.targets.size() != rows) {
    throw Error(ExitCode::usage,
                fmt::format("a micro-batch of {} x {} tokens does not fit the model's {} x {}: "
                            "give a larger --micro-batch-size or --seq-length",
                            batch.sequences, batch.length, micro_batch_, options_.seq_length));
  }
  require_in_vocabulary(batch.tokens, vocab_);
  require_in_vocabulary(batch.targets, vocab_);
  input_.load(batch.tokens, batch.targets, stream);
  sequences_ = batch.sequences;
  length_ = batch.length;
  train_ = train;
  loss_scale_ = batch.loss_scale;
}

nn::NnContext Transformer::on(StreamHandle stream) {
  return {.stream = stream,
          .products = &products_,
          .workspace = workspace_.view(workspace_.bytes() / sizeof(float), Dtype::fp32),
          .autotune = autotune_};
}

void Transformer::forward(std::size_t layer, std::span<const ConstView> weights,
                          StreamHandle stream) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  const nn::NnContext context = on(stream);
  if (layer == 0) {
    kept_inputs_.await(0, stream);
    ops_.embedding_forward(context, embedding(), input_.tokens(),
                           tensor(0, weights[0], kTokenTable),
                           tensor(0, weights[0], kPositionTable), activations_.residual.front());
  } else if (layer <= options_.num_layers) {
    forward_block(context, layer - 1, weights[0]);
  } else {
    forward_head(context, weights);
  }
}

void Transformer::backward(std::size_t layer, std::span<const ConstView> weights,
                           std::span<const zero::Gradient> gradients, StreamHandle stream) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  const nn::NnContext context = on(stream);
  if (layer == 0) {
    const View d_tokens = tensor(0, gradients[0].values, kTokenTable);
    const View d_positions = tensor(0, gradients[0].values, kPositionTable);
    if (gradients[0].fresh) {
      memory_ops_.clear(d_tokens, stream);
      if (places_.has(kPositionTable)) memory_ops_.clear(d_positions, stream);
    }
    ops_.embedding_backward(context, embedding(), input_.tokens(), activations_.d_residual,
                            d_tokens, d_positions);
  } else if (layer <= options_.num_layers) {
    backward_block(context, layer - 1, weights[0], gradients[0]);
  } else {
    backward_head(context, weights, gradients);
  }
}

void Transformer::fill(const nn::NnContext& context, std::size_t block, ConstView weights) {
  const std::size_t hidden = options_.hidden_size;
  BlockActivations& a = activations_.inside(block);
  const View input = activations_.residual[block];
  const auto w = [&](Role role) { return tensor(block + 1, weights, role); };

  ops_.norm_forward(context, norm(), input, w(kLn1Weight), w(kLn1Bias), a.ln_1, a.ln_1_mean,
                    a.ln_1_rstd);
  ops_.linear_forward(context, linear(hidden, qkv_width(options_)), a.ln_1, w(kQkvWeight),
                      w(kQkvBias), {}, a.qkv);
  if (parts_.rotary) ops_.rotary(context, attention(), activations_.angles, false, a.qkv);
  ops_.attention_forward(context, attention(), a.qkv, a.attention_saved, a.attention);
  ops_.linear_forward(context, linear(query_width(options_), hidden), a.attention,
                      w(kAttentionWeight), w(kAttentionBias), input, a.middle);

  ops_.norm_forward(context, norm(), a.middle, w(kLn2Weight), w(kLn2Bias), a.ln_2, a.ln_2_mean,
                    a.ln_2_rstd);
  const nn::LinearShape fc = linear(hidden, fc_width(options_));
  if (parts_.gated_mlp) {
    ops_.linear_forward(context, fc, a.ln_2, w(kFcWeight), w(kFcBias), {}, a.fc);
    ops_.swiglu_forward(context, rows(), ffn_width(options_), a.fc, a.activated);
  } else {
    ops_.linear_gelu_forward(context, fc, a.ln_2, w(kFcWeight), w(kFcBias), a.fc, a.activated);
  }
  a.block = block;
}

void Transformer::forward_block(const nn::NnContext& context, std::size_t block,
                                ConstView weights) {
  if (train_) kept_inputs_.keep(block, context.stream);
  fill(context, block, weights);
  const BlockActivations& a = activations_.inside(block);
  kept_inputs_.await(block + 1, context.stream);
  ops_.linear_forward(context, linear(ffn_width(options_), options_.hidden_size), a.activated,
                      tensor(block + 1, weights, kMlpWeight), tensor(block + 1, weights, kMlpBias),
                      a.middle, activations_.residual[block + 1]);
}

// d_residual comes in as the gradient of the block's output and leaves as that of its input: each
// half of the block adds its own path to it.
void Transformer::backward_block(const nn::NnContext& context, std::size_t block, ConstView weights,
                                 const zero::Gradient& gradient) {
  const std::size_t hidden = options_.hidden_size;
  const std::size_t wide = ffn_width(options_);
  const BlockActivations& a = activations_.inside(block);
  kept_inputs_.await(block, context.stream);
  if (a.block != block) {
    const Range range("recompute");
    fill(context, block, weights);
  }
  const TransformerActivations& shared = activations_;
  const bool add = !gradient.fresh;
  const auto w = [&](Role role) { return tensor(block + 1, weights, role); };
  const auto d = [&](Role role) { return tensor(block + 1, gradient.values, role); };

  const bool gated = parts_.gated_mlp;
  ops_.linear_backward(context, linear(wide, hidden), shared.d_residual, a.activated, w(kMlpWeight),
                       gated ? View{} : a.fc, shared.d_wide, add, d(kMlpWeight), d(kMlpBias));
  if (gated) ops_.swiglu_backward(context, rows(), wide, shared.d_wide, a.fc);
  ops_.linear_backward(context, linear(hidden, fc_width(options_)), gated ? a.fc : shared.d_wide,
                       a.ln_2, w(kFcWeight), {}, shared.d_narrow, add, d(kFcWeight), d(kFcBias));
  ops_.norm_backward(context, norm(), shared.d_narrow, a.middle, w(kLn2Weight), a.ln_2_mean,
                     a.ln_2_rstd, true, shared.d_residual, add, d(kLn2Weight), d(kLn2Bias));

  ops_.linear_backward(context, linear(query_width(options_), hidden), shared.d_residual,
                       a.attention, w(kAttentionWeight), {}, shared.d_narrow, add,
                       d(kAttentionWeight), d(kAttentionBias));
  ops_.attention_backward(context, attention(), shared.d_narrow, a.qkv, a.attention_saved,
                          a.attention, shared.d_wide);
  if (parts_.rotary) ops_.rotary(context, attention(), shared.angles, true, shared.d_wide);
  ops_.linear_backward(context, linear(hidden, qkv_width(options_)), shared.d_wide, a.ln_1,
                       w(kQkvWeight), {}, shared.d_narrow, add, d(kQkvWeight), d(kQkvBias));
  ops_.norm_backward(context, norm(), shared.d_narrow, shared.residual[block], w(kLn1Weight),
                     a.ln_1_mean, a.ln_1_rstd, true, shared.d_residual, add, d(kLn1Weight),
                     d(kLn1Bias));
  kept_inputs_.release(block, context.stream);
}

void Transformer::forward_head(const nn::NnContext& context, std::span<const ConstView> weights) {
  const std::size_t last = units_.size() - 1;
  const TransformerActivations& a = activations_;
  const HeadMatrix matrix = head_matrix();
  ops_.norm_forward(context, norm(), a.residual.back(), tensor(last, weights[0], kLnFWeight),
                    tensor(last, weights[0], kLnFBias), a.ln_f, a.ln_f_mean, a.ln_f_rstd);
  ops_.linear_forward(context, head(), a.ln_f,
                      tensor(matrix.unit, weights[matrix.position], matrix.role), {}, {}, a.logits);
  ops_.cross_entropy(context, rows(), vocab_, head().stride(), input_.targets(), train_,
                     loss_scale_, a.logits, a.row_loss);
  ops_.add_mean(context, View(a.row_loss.part(0, rows())), loss_sum());
}

void Transformer::backward_head(const nn::NnContext& context, std::span<const ConstView> weights,
                                std::span<const zero::Gradient> gradients) {
  const std::size_t last = units_.size() - 1;
  const TransformerActivations& a = activations_;
  const HeadMatrix matrix = head_matrix();
  const zero::Gradient& d_matrix = gradients[matrix.position];
  ops_.linear_backward(context, head(), a.logits, a.ln_f,
                       tensor(matrix.unit, weights[matrix.position], matrix.role), {}, a.d_narrow,
                       !d_matrix.fresh, tensor(matrix.unit, d_matrix.values, matrix.role), {});
  if (options_.tied_head && d_matrix.fresh && places_.has(kPositionTable)) {
    // the rest of the embedding's unit
    memory_ops_.clear(tensor(0, d_matrix.values, kPositionTable), context.stream);
  }
  ops_.norm_backward(
      context, norm(), a.d_narrow, a.residual.back(), tensor(last, weights[0], kLnFWeight),
      a.ln_f_mean, a.ln_f_rstd, false, a.d_residual, !gradients[0].fresh,
      tensor(last, gradients[0].values, kLnFWeight), tensor(last, gradients[0].values, kLnFBias));
}

void Transformer::take_loss(double* loss, StreamHandle stream) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  ops_.take_total(on(stream), loss_sum(), loss);
}

}  // namespace zeropp::model
