// Options of the models, as plain values (Megatron's names in the flags).
#pragma once

#include <cstddef>
#include <string>

namespace zeropp::model {

struct Options {
  std::string name = "gpt";  ///< an entry of lib/model/registry.cpp
  std::size_t num_layers = 2;
  std::size_t hidden_size = 64;
  std::size_t num_attention_heads = 4;
  std::size_t seq_length = 64;
  std::size_t vocab_size = 0;          ///< 0: the token source's
  bool tied_head = true;               ///< the head reads the token embedding again
  bool recompute_activations = false;  ///< a block keeps its input alone for backward
};

/// Whether the model has blocks with attention heads, and an output head: `quadratic` does not read
/// num_attention_heads, tied_head and recompute_activations.
inline bool is_transformer(const Options& options) { return options.name != "quadratic"; }

}  // namespace zeropp::model
