// Options of the models, as plain values (Megatron's names in the flags).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace zeropp::model {

struct Options {
  std::string name = "gpt";  ///< an entry of lib/model/registry.cpp
  std::size_t num_layers = 2;
  std::size_t hidden_size = 64;
  std::size_t num_attention_heads = 4;
  std::size_t mlp_width = 0;  ///< 0: four times hidden_size. Plans alone set it, no option
  std::size_t seq_length = 64;
  std::size_t vocab_size = 0;          ///< 0: the token source's
  bool tied_head = true;               ///< the head reads the token embedding again
  bool recompute_activations = false;  ///< blocks keep their input alone for backward: every
  std::size_t recompute_interval = 1;  ///< so many blocks one, from the first on
  bool cpu_checkpointing = false;      ///< these inputs wait for backward on the host
};

/// Width of the MLP of a block.
inline std::size_t mlp_width(const Options& options) {
  return options.mlp_width > 0 ? options.mlp_width : 4 * options.hidden_size;
}

/// Whether a block keeps its input alone.
inline bool recomputes(const Options& options, std::size_t block) {
  return options.recompute_activations && block % options.recompute_interval == 0;
}
/// Number of the blocks that keep their input alone.
inline std::size_t recomputing_blocks(const Options& options) {
  if (!options.recompute_activations) return 0;
  return (options.num_layers - 1) / options.recompute_interval + 1;
}

/// Number of slots on the device for the inputs that blocks keep alone, where others are on the
/// host: one is computed with while the other is copied.
inline constexpr std::size_t kInputSlots = 2;
/// Inputs of blocks that lie on the host from forward to backward.
inline std::size_t offloaded_inputs(const Options& options) {
  const std::size_t kept = options.cpu_checkpointing ? recomputing_blocks(options) : 0;
  return kept > kInputSlots ? kept - kInputSlots : 0;
}
/// Number of blocks that take turns before `block`, where its input takes turns with others on the
/// device.
inline std::optional<std::size_t> turn_of(const Options& options, std::size_t block) {
  const bool takes_turns =
      offloaded_inputs(options) > 0 && block < options.num_layers && recomputes(options, block);
  return takes_turns ? std::optional(block / options.recompute_interval) : std::nullopt;
}

/// Whether the model has blocks with attention heads, and an output head: `quadratic` does not read
/// num_attention_heads, tied_head, recompute_activations, recompute_interval and cpu_checkpointing.
inline bool is_transformer(const Options& options) { return options.name != "quadratic"; }

}  // namespace zeropp::model
