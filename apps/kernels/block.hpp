// Base of the kernels of a GPT's block: rows for every shape and compute dtype, and views of
// workspace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/kernels/kernel.hpp"

namespace zeropp::kernels {

/// A shape, with what a kernel needs to know beside it.
struct Block {
  BlockShape shape;
  std::size_t vocab = 0;
  Dtype compute = Dtype::fp32;  ///< of weights
  Source source{1};

  /// "8192x1600"
  [[nodiscard]] std::string rows_by(std::size_t columns) const {
    return std::to_string(shape.rows()) + 'x' + std::to_string(columns);
  }
  /// Attention of the block, whose heads all have keys of their own.
  [[nodiscard]] nn::AttentionShape attention() const {
    return {.sequences = shape.sequences,
            .length = shape.length,
            .heads = shape.heads,
            .kv_heads = shape.heads,
            .head_width = shape.hidden / shape.heads};
  }
  /// "8x1024x25x64"
  [[nodiscard]] std::string by_heads() const {
    return std::to_string(shape.sequences) + 'x' + std::to_string(shape.length) + 'x' +
           std::to_string(shape.heads) + 'x' + std::to_string(shape.hidden / shape.heads);
  }
  /// Dtype of activations and their gradients.
  [[nodiscard]] Dtype activation(const ComputeDevice& device) const {
    return device.nn->activation_dtype(compute);
  }
};

/// A row for every shape and dtype of the choice that is measured: fp32 and bf16, whose units fp16
/// runs on as well. `label` and `make` take a Block, `make` a Device too.
template <class Label, class Make>
std::vector<Case> block_cases(const Choice& choice, const Kernel& kernel, std::string_view variant,
                              const Label& label, const Make& make) {
  std::vector<Case> cases;
  for (const BlockShape& shape : choice.shapes) {
    for (const Dtype compute : choice.dtypes) {
      if (compute == Dtype::fp16) continue;
      const Block block{shape, choice.vocab, compute, choice.source};
      cases.push_back({std::string(kernel.name), std::string(variant),
                       std::string(name_of(compute)), label(block),
                       [block, make](const ComputeDevice& device) { return make(block, device); }});
    }
  }
  return cases;
}

inline Array workspace_of(std::size_t elements) {
  return {.name = "workspace", .count = elements, .shared = true};
}

/// Largest difference of results in this dtype from fp64's, relative to the numbers that are added
/// up.
inline double tolerance_of(Dtype dtype) { return dtype == Dtype::fp32 ? 1e-4 : 1.5e-2; }

}  // namespace zeropp::kernels
