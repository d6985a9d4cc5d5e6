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
  bool recompute_activations = false;  ///< blocks keep their input alone for backward: every
  std::size_t recompute_interval = 1;  ///< so many blocks one, from the first on
};

/// Whether a block keeps its input alone.
inline bool recomputes(const Options& options, std::size_t block) {
  return options.recompute_activations && block % options.recompute_interval == 0;
}
/// How many do.
inline std::size_t recomputing_blocks(const Options& options) {
  if (!options.recompute_activations) return 0;
  return (options.num_layers - 1) / options.recompute_interval + 1;
}

/// Whether the model has blocks with attention heads, and an output head: `quadratic` does not read
/// num_attention_heads, tied_head, recompute_activations and recompute_interval.
inline bool is_transformer(const Options& options) { return options.name != "quadratic"; }

}  // namespace zeropp::model
