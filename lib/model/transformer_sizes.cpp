#include "lib/model/transformer_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"

namespace zeropp::model {

const Options& representable(const Options& options, const Sizing& sizing) {
  const auto real = [](std::size_t size) { return static_cast<double>(size); };
  const auto refuse_above = [](double limit, double value, const char* what, const char* remedy) {
    if (value <= limit) return;
    throw Error(ExitCode::usage,
                fmt::format("{} would be {:.0f}, beyond {:.0f}: choose a smaller {}", what, value,
                            limit, remedy));
  };
  constexpr double kInteger = std::numeric_limits<std::int32_t>::max();
  const double rows = real(sizing.micro_batch) * real(options.seq_length);
  const double hidden = real(options.hidden_size);
  const double wide = real(fc_width(options));
  const double qkv = real(qkv_width(options));
  const double scores = real(options.num_attention_heads) * real(options.seq_length);
  refuse_above(kInteger, rows, "tokens of a micro-batch", "--micro-batch-size or --seq-length");
  refuse_above(kInteger, real(sizing.vocab_size), "the vocabulary", "--vocab-size");
  refuse_above(kInteger, wide, "the width of the MLP", "--hidden-size or --ffn-hidden-size");
  refuse_above(kInteger, qkv, "the width of queries, keys and values",
               "--num-attention-heads or --head-dim");
  const double values = real(options.num_layers + 1) *
                            (rows * (12 * hidden + 4 * qkv + 3 * wide + scores) +
                             2 * hidden * (2 * qkv + wide)) +
                        (rows + 4 * hidden) * (real(sizing.vocab_size) + real(options.seq_length));
  refuse_above(0x1p56, values, "the values of weights and activations",
               "--num-layers, --hidden-size or --seq-length");
  return options;
}

std::size_t workspace_elements(const Options& options, const Sizing& sizing) {
  const nn::NnSizes& ops = sizing.sizes;
  const std::size_t hidden = options.hidden_size;
  const std::size_t vocab = sizing.vocab_size;
  const std::size_t rows = sizing.micro_batch * options.seq_length;
  const auto linear = [&](std::size_t in, std::size_t out, std::size_t stride = 0) {
    return ops.linear_workspace({rows, in, out, stride}, sizing.compute);
  };
  return std::max(
      {ops.embedding_workspace({sizing.micro_batch, options.seq_length, vocab, hidden}),
       ops.norm_workspace(rows, hidden), linear(hidden, qkv_width(options)),
       linear(query_width(options), hidden), linear(hidden, fc_width(options)),
       linear(ffn_width(options), hidden),
       linear(hidden, vocab, ops.logits_stride(vocab)),
       ops.attention_workspace(largest_attention(options, sizing), sizing.compute)});
}

nn::AttentionShape largest_attention(const Options& options, const Sizing& sizing) {
  return {.sequences = sizing.micro_batch,
          .length = options.seq_length,
          .heads = options.num_attention_heads,
          .kv_heads = kv_heads(options),
          .head_width = head_width(options),
              .deterministic = sizing.deterministic};
}

std::size_t aligned_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return round_up(bytes, kAlignment);
}

std::size_t activation_sets(const Options& options) {
  const std::size_t sharing = recomputing_blocks(options);
  return options.num_layers - sharing + std::min<std::size_t>(sharing, 1);
}

std::size_t narrow_gradient(const Options& options) {
  return std::max(options.hidden_size, query_width(options));
}
std::size_t wide_gradient(const Options& options) {
  return std::max(ffn_width(options), qkv_width(options));
}

std::size_t activation_bytes(const Options& options, const Sizing& sizing) {
  const nn::NnSizes& ops = sizing.sizes;
  const Parts parts = parts_of(options);
  const std::size_t rows = sizing.micro_batch * options.seq_length;
  const std::size_t sets = activation_sets(options);
  const std::size_t element = size_of(ops.activation_dtype(sizing.compute));
  const auto matrix = [&](std::size_t columns) { return aligned_bytes(rows * columns * element); };
  const std::size_t hidden = options.hidden_size;
  const std::size_t saved =
      ops.attention_saved_bytes(largest_attention(options, sizing), sizing.compute);
  const std::size_t statistics = parts.rms_norm ? 1 : 2;
  const std::size_t inside = matrix(qkv_width(options)) + matrix(query_width(options)) +
                             matrix(fc_width(options)) + matrix(ffn_width(options)) +
                             aligned_bytes(saved);
  const std::size_t angles =
      parts.rotary ? options.seq_length * head_width(options) * sizeof(float) : 0;
  return (options.num_layers + 3 * sets + 3 - offloaded_inputs(options)) * matrix(hidden) +
         matrix(narrow_gradient(options)) + sets * inside + matrix(wide_gradient(options)) +
         matrix(ops.logits_stride(sizing.vocab_size)) +
         (statistics * (2 * sets + 1) + 1) * aligned_bytes(rows * sizeof(float)) +
         aligned_bytes(angles);
}

std::size_t kept_input_bytes(const Options& options, std::size_t input_bytes) {
  return offloaded_inputs(options) * aligned_bytes(input_bytes);
}

std::size_t transformer_bytes(const Options& options, const Sizing& sizing) {
  return activation_bytes(representable(options, sizing), sizing) +
         2 * sizing.micro_batch * options.seq_length * sizeof(std::int32_t) +
         workspace_elements(options, sizing) * sizeof(float) + sizeof(double);
}

std::size_t transformer_offloaded_bytes(const Options& options, const Sizing& sizing) {
  const std::size_t element = size_of(sizing.sizes.activation_dtype(sizing.compute));
  return kept_input_bytes(options,
                          sizing.micro_batch * options.seq_length * options.hidden_size * element);
}

}  // namespace zeropp::model
