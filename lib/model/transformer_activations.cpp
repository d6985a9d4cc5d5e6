#include "lib/model/transformer_activations.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"
#include "lib/model/transformer_sizes.hpp"

namespace zeropp::model {

namespace {

struct Part {
  View* view;
  std::size_t count;
  Dtype dtype;

  [[nodiscard]] std::size_t bytes() const { return aligned_bytes(count * size_of(dtype)); }
};

}  // namespace

TransformerActivations::TransformerActivations(const Options& options, const Context& context,
                                               bool causal)
    : residual(options.num_layers + 1), blocks(activation_sets(options)) {
  const std::size_t shared = std::min<std::size_t>(recomputing_blocks(options), 1);
  std::size_t kept = shared;
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    set_of_.push_back(recomputes(options, block) ? 0 : kept++);
  }
  const nn::NnOps& ops = *context.device.nn;
  const std::size_t rows = context.micro_batch * options.seq_length;
  const std::size_t hidden = options.hidden_size;
  const std::size_t saved_bytes = ops.attention_saved_bytes(
      largest_attention(options, context.sizing(), causal), context.compute);
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
  matrix(d_wide, wide_gradient(options));
  for (View* const view : {&ln_f_mean, &ln_f_rstd, &row_loss}) column(*view);
  for (BlockActivations& block : blocks) {
    for (View* const view : {&block.ln_1, &block.attention, &block.middle, &block.ln_2}) {
      matrix(*view, hidden);
    }
    matrix(block.qkv, 3 * hidden);
    matrix(block.fc, mlp_width(options));
    matrix(block.gelu, mlp_width(options));
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
