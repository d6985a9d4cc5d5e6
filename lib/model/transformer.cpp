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

}  // namespace

Transformer::Transformer(const Options& options, const Context& context, bool causal)
    : options_(representable(options, context.sizing())),
      micro_batch_(context.micro_batch),
      vocab_(context.vocab_size),
      causal_(causal),
      ops_(*context.device.nn),
      memory_ops_(*context.device.memory_ops),
      timers_(context.timers),
      products_(context.timers),
      deterministic_(context.deterministic),
      autotune_(context.autotune),
      units_(transformer_units(options, vocab_)),
      layers_(transformer_layers(options)),
      activations_(options, context, causal),
      kept_inputs_(options, activations_.residual, context.device),
      input_(context.micro_batch * options.seq_length, context.device),
      workspace_(workspace_elements(options, context.sizing(), causal) * sizeof(float),
                 context.device.memory),
      loss_(Buffer::zeros(2, Dtype::fp32, context.device.memory)),
      predicted_bytes_(transformer_bytes(options, context.sizing(), causal)),
      predicted_offloaded_bytes_(transformer_offloaded_bytes(options, context.sizing())),
      kernels_(fmt::format("attention={}{}",
                           ops_.attention_name(largest_attention(options, context.sizing(), causal),
                                               context.compute),
                           context.autotune ? ", products=tuned" : "")) {}

zero::MemoryReport Transformer::memory() const {
  return {"activations", predicted_bytes_,
          activations_.bytes() + input_.bytes() + workspace_.bytes() + loss_.bytes()};
}

std::vector<zero::MemoryReport> Transformer::offloaded_memory() const {
  if (predicted_offloaded_bytes_ == 0) return {};
  return {{"offloaded_activations", predicted_offloaded_bytes_, kept_inputs_.bytes()}};
}

void Transformer::require_fits(const zero::Batch& batch) const {
  const std::size_t rows = batch.sequences * batch.length;
  if (rows == 0 || batch.sequences > micro_batch_ || batch.length > options_.seq_length ||
      batch.tokens.size() != rows || batch.targets.size() != rows) {
    throw Error(ExitCode::usage,
                fmt::format("a micro-batch of {} x {} tokens does not fit the model's {} x {}: "
                            "give a larger --micro-batch-size or --seq-length",
                            batch.sequences, batch.length, micro_batch_, options_.seq_length));
  }
}

void Transformer::require_in_vocabulary(std::span<const std::int32_t> tokens, std::size_t vocab) {
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [vocab](std::int32_t token) {
    return token < 0 || static_cast<std::size_t>(token) >= vocab;
  });
  if (outside == tokens.end()) return;
  throw Error(
      ExitCode::usage,
      fmt::format("token {} is outside the model's vocabulary of {}: give a larger --vocab-size",
                  *outside, vocab));
}

void Transformer::load(const zero::Batch& batch, std::size_t counted, bool train,
                       StreamHandle stream) {
  input_.load(batch.tokens, batch.targets, stream);
  sequences_ = batch.sequences;
  length_ = batch.length;
  counted_ = counted;
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
    ops_.embedding_forward(
        context, embedding(), input_.tokens(), tensor_of(units_[0], weights[0], kTokenTable),
        tensor_of(units_[0], weights[0], kPositionTable), activations_.residual.front());
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
    const View d_tokens = tensor_of(units_[0], gradients[0].values, kTokenTable);
    const View d_positions = tensor_of(units_[0], gradients[0].values, kPositionTable);
    if (gradients[0].fresh) {
      memory_ops_.clear(d_tokens, stream);
      memory_ops_.clear(d_positions, stream);
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
  const std::size_t wide = mlp_width(options_);
  BlockActivations& a = activations_.inside(block);
  const View input = activations_.residual[block];
  const auto w = [&](BlockTensor tensor) { return tensor_of(units_[block + 1], weights, tensor); };

  ops_.layernorm_forward(context, rows(), hidden, input, w(kLn1Weight), w(kLn1Bias), a.ln_1,
                         a.ln_1_mean, a.ln_1_rstd);
  ops_.linear_forward(context, linear(hidden, 3 * hidden), a.ln_1, w(kQkvWeight), w(kQkvBias), {},
                      a.qkv);
  ops_.attention_forward(context, attention(), a.qkv, a.attention_saved, a.attention);
  ops_.linear_forward(context, linear(hidden, hidden), a.attention, w(kAttentionWeight),
                      w(kAttentionBias), input, a.middle);

  ops_.layernorm_forward(context, rows(), hidden, a.middle, w(kLn2Weight), w(kLn2Bias), a.ln_2,
                         a.ln_2_mean, a.ln_2_rstd);
  ops_.linear_gelu_forward(context, linear(hidden, wide), a.ln_2, w(kFcWeight), w(kFcBias), a.fc,
                           a.gelu);
  a.block = block;
}

void Transformer::forward_block(const nn::NnContext& context, std::size_t block,
                                ConstView weights) {
  if (train_) kept_inputs_.keep(block, context.stream);
  fill(context, block, weights);
  const BlockActivations& a = activations_.inside(block);
  const zero::Unit& unit = units_[block + 1];
  kept_inputs_.await(block + 1, context.stream);
  ops_.linear_forward(context, linear(mlp_width(options_), options_.hidden_size), a.gelu,
                      tensor_of(unit, weights, kMlpWeight), tensor_of(unit, weights, kMlpBias),
                      a.middle, activations_.residual[block + 1]);
}

// d_residual comes in as the gradient of the block's output and leaves as that of its input: each
// half of the block adds its own path to it.
void Transformer::backward_block(const nn::NnContext& context, std::size_t block, ConstView weights,
                                 const zero::Gradient& gradient) {
  const std::size_t hidden = options_.hidden_size;
  const std::size_t wide = mlp_width(options_);
  const BlockActivations& a = activations_.inside(block);
  kept_inputs_.await(block, context.stream);
  if (a.block != block) {
    const Range range("recompute");
    fill(context, block, weights);
  }
  const TransformerActivations& shared = activations_;
  const bool add = !gradient.fresh;
  const auto w = [&](BlockTensor tensor) { return tensor_of(units_[block + 1], weights, tensor); };
  const auto d = [&](BlockTensor tensor) {
    return tensor_of(units_[block + 1], gradient.values, tensor);
  };

  ops_.linear_backward(context, linear(wide, hidden), shared.d_residual, a.gelu, w(kMlpWeight),
                       a.fc, shared.d_wide, add, d(kMlpWeight), d(kMlpBias));
  ops_.linear_backward(context, linear(hidden, wide), shared.d_wide, a.ln_2, w(kFcWeight), {},
                       shared.d_hidden, add, d(kFcWeight), d(kFcBias));
  ops_.layernorm_backward(context, rows(), hidden, shared.d_hidden, a.middle, w(kLn2Weight),
                          a.ln_2_mean, a.ln_2_rstd, true, shared.d_residual, add, d(kLn2Weight),
                          d(kLn2Bias));

  ops_.linear_backward(context, linear(hidden, hidden), shared.d_residual, a.attention,
                       w(kAttentionWeight), {}, shared.d_hidden, add, d(kAttentionWeight),
                       d(kAttentionBias));
  ops_.attention_backward(context, attention(), shared.d_hidden, a.qkv, a.attention_saved,
                          a.attention, shared.d_wide);
  ops_.linear_backward(context, linear(hidden, 3 * hidden), shared.d_wide, a.ln_1, w(kQkvWeight),
                       {}, shared.d_hidden, add, d(kQkvWeight), d(kQkvBias));
  ops_.layernorm_backward(context, rows(), hidden, shared.d_hidden, shared.residual[block],
                          w(kLn1Weight), a.ln_1_mean, a.ln_1_rstd, true, shared.d_residual, add,
                          d(kLn1Weight), d(kLn1Bias));
  kept_inputs_.release(block, context.stream);
}

void Transformer::forward_head(const nn::NnContext& context, std::span<const ConstView> weights) {
  const std::size_t hidden = options_.hidden_size;
  const TransformerActivations& a = activations_;
  const HeadMatrix matrix = head_matrix();
  ops_.layernorm_forward(
      context, rows(), hidden, a.residual.back(), tensor_of(units_.back(), weights[0], kLnFWeight),
      tensor_of(units_.back(), weights[0], kLnFBias), a.ln_f, a.ln_f_mean, a.ln_f_rstd);
  ops_.linear_forward(context, head(), a.ln_f,
                      tensor_of(units_[matrix.unit], weights[matrix.position], matrix.tensor), {},
                      {}, a.logits);
  ops_.cross_entropy(context, rows(), vocab_, head().stride(), input_.targets(), counted_, train_,
                     loss_scale_, a.logits, a.row_loss);
  ops_.add_mean(context, View(a.row_loss.part(0, rows())), counted_, loss_sum());
}

void Transformer::backward_head(const nn::NnContext& context, std::span<const ConstView> weights,
                                std::span<const zero::Gradient> gradients) {
  const std::size_t hidden = options_.hidden_size;
  const TransformerActivations& a = activations_;
  const HeadMatrix matrix = head_matrix();
  const zero::Gradient& d_matrix = gradients[matrix.position];
  ops_.linear_backward(context, head(), a.logits, a.ln_f,
                       tensor_of(units_[matrix.unit], weights[matrix.position], matrix.tensor), {},
                       a.d_hidden, !d_matrix.fresh,
                       tensor_of(units_[matrix.unit], d_matrix.values, matrix.tensor), {});
  if (options_.tied_head && d_matrix.fresh) {  // the rest of the embedding's unit
    memory_ops_.clear(tensor_of(units_[0], d_matrix.values, kPositionTable), context.stream);
  }
  ops_.layernorm_backward(context, rows(), hidden, a.d_hidden, a.residual.back(),
                          tensor_of(units_.back(), weights[0], kLnFWeight), a.ln_f_mean,
                          a.ln_f_rstd, false, a.d_residual, !gradients[0].fresh,
                          tensor_of(units_.back(), gradients[0].values, kLnFWeight),
                          tensor_of(units_.back(), gradients[0].values, kLnFBias));
}

void Transformer::take_loss(double* loss, StreamHandle stream) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  ops_.take_total(on(stream), loss_sum(), loss);
}

}  // namespace zeropp::model
