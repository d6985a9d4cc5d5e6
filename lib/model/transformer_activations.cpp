#include "lib/model/transformer_activations.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/checked.hpp"
#include "lib/device/stream.hpp"
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

TransformerActivations::TransformerActivations(const Options& options, const Context& context)
    : residual(options.num_layers + 1), blocks(activation_sets(options)) {
  const std::size_t shared = std::min<std::size_t>(recomputing_blocks(options), 1);
  std::size_t kept = shared;
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    set_of_.push_back(recomputes(options, block) ? 0 : kept++);
  }
  const nn::NnOps& ops = *context.device.nn;
  const std::size_t rows = context.micro_batch * options.seq_length;
  const std::size_t hidden = options.hidden_size;
  const std::size_t saved_bytes =
      ops.attention_saved_bytes(largest_attention(options, context.sizing()), context.compute);
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
  const Parts has = parts_of(options);
  const auto statistics = [&](View& mean, View& rstd) {
    if (!has.rms_norm) column(mean);
    column(rstd);
  };
  for (View* const view : {&ln_f, &d_residual}) matrix(*view, hidden);
  matrix(d_narrow, narrow_gradient(options));
  matrix(logits, ops.logits_stride(context.vocab_size));
  matrix(d_wide, wide_gradient(options));
  statistics(ln_f_mean, ln_f_rstd);
  column(row_loss);
  if (has.rotary) {
    parts.push_back({&angles, options.seq_length * head_width(options), Dtype::fp32});
  }
  for (BlockActivations& block : blocks) {
    for (View* const view : {&block.ln_1, &block.middle, &block.ln_2}) matrix(*view, hidden);
    matrix(block.qkv, qkv_width(options));
    matrix(block.attention, query_width(options));
    matrix(block.fc, fc_width(options));
    matrix(block.activated, ffn_width(options));
    statistics(block.ln_1_mean, block.ln_1_rstd);
    statistics(block.ln_2_mean, block.ln_2_rstd);
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
  if (has.rotary) fill_angles(options, context.device);
}

void TransformerActivations::fill_angles(const Options& options, const Device& device) {
  const std::size_t width = head_width(options);
  Buffer staged(angles.count * sizeof(float), device.staging());
  auto* to = reinterpret_cast<float*>(staged.data());
  for (std::size_t t = 0; t < options.seq_length; ++t) {
    for (std::size_t i = 0; i < width; i += 2) {
      const double frequency =
          std::pow(options.rope_theta, -static_cast<double>(i) / static_cast<double>(width));
      const double angle = static_cast<double>(t) * frequency;
      *to++ = static_cast<float>(std::cos(angle));
      *to++ = static_cast<float>(std::sin(angle));
    }
  }
  Stream stream = device.make_stream("rotary angles");
  device.memory_ops->copy(staged.view(angles.count, Dtype::fp32), angles, stream.handle());
  stream.synchronize();
}

}  // namespace zeropp::model
