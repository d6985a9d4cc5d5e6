#include "lib/model/transformer_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/model/steps.hpp"

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
  const double scores = real(options.num_attention_heads) * real(options.seq_length);
  refuse_above(kInteger, rows, "tokens of a micro-batch", "--micro-batch-size or --seq-length");
  refuse_above(kInteger, real(sizing.vocab_size), "the vocabulary", "--vocab-size");
  refuse_above(kInteger, real(fc_width(options)), "the width of the MLP",
               "--hidden-size or --ffn-hidden-size");
  refuse_above(kInteger, real(qkv_width(options)), "the width of queries, keys and values",
               "--num-attention-heads or --head-dim");
  double values = (rows + 4 * hidden) * (real(sizing.vocab_size) + real(options.seq_length));
  for (const BlockKind& kind : block_kinds(options)) {
    double block = rows * (4 * hidden + scores);
    for (const Step& step : kind.steps) {
      block += 2 * rows * real(step.uses) * (real(step.in) + real(step.out));
      if (step.kind == StepKind::product) {
        block += real(step.copies) * real(step.in) * real(step.out);
      }
    }
    values += real(kind.blocks + 1) * block;
  }
  refuse_above(0x1p56, values, "the values of weights and activations",
               "--num-layers, --hidden-size or --seq-length");
  return options;
}

std::size_t workspace_elements(const Options& options, const Sizing& sizing) {
  const nn::NnSizes& ops = sizing.sizes;
  const std::size_t vocab = sizing.vocab_size;
  const std::size_t rows = sizing.micro_batch * options.seq_length;
  const auto linear = [&](std::size_t times, std::size_t in, std::size_t out,
                          std::size_t stride = 0) {
    return ops.linear_workspace({times * rows, in, out, stride}, sizing.compute);
  };
  const std::size_t hidden = options.hidden_size;
  std::size_t most =
      std::max({ops.embedding_workspace({sizing.micro_batch, options.seq_length, vocab, hidden}),
                linear(1, table_width(options), vocab, ops.logits_stride(vocab)),
                ops.attention_workspace(largest_attention(options, sizing), sizing.compute)});
  const auto add = [&](const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.kind == StepKind::norm) most = std::max(most, ops.norm_workspace(rows, step.out));
      if (step.kind == StepKind::product) {
        most = std::max(most, linear(step.uses, step.in, step.out));
      }
    }
  };
  for (const BlockKind& kind : block_kinds(options)) add(kind.steps);
  add(embedding_steps(options));
  add(head_steps(options));
  return most;
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
  std::size_t widest = options.hidden_size;
  for (const BlockKind& kind : block_kinds(options)) {
    for (const Step& step : kind.steps) {
      const bool narrow = step.kind == StepKind::attention || step.kind == StepKind::move;
      if (narrow && step.keeps) widest = std::max(widest, step.out);
    }
  }
  return widest;
}

std::size_t wide_gradient(const Options& options) {
  std::size_t widest = 0;
  for (const BlockKind& kind : block_kinds(options)) {
    for (const Step& step : kind.steps) {
      if (step.kind == StepKind::attention) widest = std::max(widest, step.in);
      if (step.kind == StepKind::activation) widest = std::max(widest, step.uses * step.out);
    }
  }
  return widest;
}

namespace {

/// Bytes of the views of activations that steps keep, each by itself.
class KeptBytes {
 public:
  KeptBytes(const Options& options, const Sizing& sizing)
      : rows_(sizing.micro_batch * options.seq_length),
        element_(size_of(sizing.sizes.activation_dtype(sizing.compute))),
        saved_(aligned_bytes(sizing.sizes.attention_saved_bytes(largest_attention(options, sizing),
                                                                sizing.compute))) {}

  [[nodiscard]] std::size_t matrix(std::size_t columns) const {
    return aligned_bytes(rows_ * columns * element_);
  }
  /// A value of each row in fp32.
  [[nodiscard]] std::size_t column() const { return aligned_bytes(rows_ * sizeof(float)); }
  [[nodiscard]] std::size_t of(const std::vector<Step>& steps) const {
    std::size_t bytes = 0;
    for (const Step& step : steps) {
      bytes += matrix(step.kept()) + step.statistics * column();
      if (step.kind == StepKind::attention) bytes += saved_;
    }
    return bytes;
  }

 private:
  std::size_t rows_;
  std::size_t element_;
  std::size_t saved_;
};

}  // namespace

std::size_t activation_bytes(const Options& options, const Sizing& sizing) {
  const Parts parts = parts_of(options);
  const KeptBytes kept(options, sizing);
  // All blocks that recompute share the largest set of views, each of the others has its own.
  std::array<std::size_t, 2> of_kind{};  // dense, with experts
  for (const BlockKind& kind : block_kinds(options)) {
    of_kind.at(kind.experts ? 1 : 0) = kept.of(kind.steps);
  }
  std::size_t inside = 0;
  std::size_t shared = 0;
  for (std::size_t block = 0; block < options.num_layers; ++block) {
    const std::size_t own = of_kind.at(has_experts(parts, block) ? 1 : 0);
    if (recomputes(options, block)) {
      shared = std::max(shared, own);
    } else {
      inside += own;
    }
  }
  const std::size_t hidden = options.hidden_size;
  const std::size_t angles =
      parts.rotary ? options.seq_length * rotary_width(options) * sizeof(float) : 0;
  return (options.num_layers + 2 - offloaded_inputs(options)) * kept.matrix(hidden) + inside +
         shared + kept.of(embedding_steps(options)) + kept.of(head_steps(options)) +
         kept.matrix(narrow_gradient(options)) + kept.matrix(wide_gradient(options)) +
         kept.matrix(sizing.sizes.logits_stride(sizing.vocab_size)) + kept.column() +
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
