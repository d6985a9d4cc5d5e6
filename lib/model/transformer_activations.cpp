#include "lib/model/transformer_activations.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"

namespace zeropp::model {

namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return round_up(bytes, kAlignment);
}

std::size_t sets_of(const Options& options) {
  const std::size_t sharing = recomputing_blocks(options);
  return options.num_layers - sharing + std::min<std::size_t>(sharing, 1);
}

struct Part {
  View* view;
  std::size_t count;
  Dtype dtype;

  [[nodiscard]] std::size_t bytes() const { return aligned(count * size_of(dtype)); }
};

}  // namespace

nn::AttentionShape largest_attention(const Options& options, const Context& context, bool causal) {
  return {.sequences = context.micro_batch,
          .length = options.seq_length,
          .heads = options.num_attention_heads,
          .hidden = options.hidden_size,
          .causal = causal};
}

std::size_t TransformerActivations::predicted_bytes(const Options& options, const Context& context,
                                                    const nn::AttentionShape& attention) {
  const nn::NnOps& ops = *context.device.nn;
  const std::size_t rows = context.micro_batch * options.seq_length;
  const std::size_t sets = sets_of(options);
  const std::size_t element = size_of(ops.activation_dtype(context.compute));
  const auto matrix = [&](std::size_t columns) { return aligned(rows * columns * element); };
  const std::size_t hidden = options.hidden_size;
  return (options.num_layers + 4 * sets + 4 - offloaded_inputs(options)) * matrix(hidden) +
         sets * matrix(3 * hidden) + (2 * sets + 1) * matrix(4 * hidden) +
         matrix(ops.logits_stride(context.vocab_size)) +
         (4 * sets + 3) * aligned(rows * sizeof(float)) +
         sets * aligned(ops.attention_saved_bytes(attention, context.compute));
}

TransformerActivations::TransformerActivations(const Options& options, const Context& context,
                                               const nn::AttentionShape& attention)
    : residual(options.num_layers + 1), blocks(sets_of(options)) {
  const std::size_t shared = std::min<std::size_t>(recomputing_blocks(options), 1);
  std::size_t kept = shared;
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    set_of_.push_back(recomputes(options, block) ? 0 : kept++);
  }
  const nn::NnOps& ops = *context.device.nn;
  const std::size_t rows = context.micro_batch * options.seq_length;
  const std::size_t hidden = options.hidden_size;
  const std::size_t saved_bytes = ops.attention_saved_bytes(attention, context.compute);
  const Dtype dtype = ops.activation_dtype(context.compute);
  std::vector<Part> parts;
  const auto matrix = [&](View& view, std::size_t columns) {
    parts.push_back({&view, rows * columns, dtype});
  };
  const auto column = [&](View& view) { parts.push_back({&view, rows, Dtype::fp32}); };

  const auto shares = [&](std::size_t block) {
    return turn_of(options, block).value_or(0) >= kInputSlots;
  };
  for (std::size_t block = 0; block < residual.size(); ++block) {
    if (!shares(block)) matrix(residual[block], hidden);
  }
  for (View* const view : {&ln_f, &d_residual, &d_hidden}) matrix(*view, hidden);
  matrix(logits, ops.logits_stride(context.vocab_size));
  matrix(d_wide, 4 * hidden);
  for (View* const view : {&ln_f_mean, &ln_f_rstd, &row_loss}) column(*view);
  for (BlockActivations& block : blocks) {
    for (View* const view : {&block.ln_1, &block.attention, &block.middle, &block.ln_2}) {
      matrix(*view, hidden);
    }
    matrix(block.qkv, 3 * hidden);
    matrix(block.fc, 4 * hidden);
    matrix(block.gelu, 4 * hidden);
    for (View* const view :
         {&block.ln_1_mean, &block.ln_1_rstd, &block.ln_2_mean, &block.ln_2_rstd}) {
      column(*view);
    }
    parts.push_back({&block.attention_saved, ceil_div(saved_bytes, sizeof(float)), Dtype::fp32});
  }
  std::size_t total = 0;
  for (const Part& part : parts) total += part.bytes();
  // Zeros: pad columns of the logits are read, and ignored, before anything is written there.
  memory_ = Buffer::zeros(total / sizeof(float), Dtype::fp32, context.device.memory);
  std::size_t offset = 0;
  for (const Part& part : parts) {
    *part.view = memory_.view(part.count, part.dtype, offset);
    offset += part.bytes();
  }
  for (std::size_t block = 0; block < residual.size(); ++block) {
    if (shares(block)) residual[block] = residual[block - kInputSlots * options.recompute_interval];
  }
}

}  // namespace zeropp::model
