// Options of the models, as plain values (Megatron's names in the flags).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lib/model/parts.hpp"

namespace zeropp::model {

struct Options {
  std::string name = "gpt";  ///< an entry of lib/model/registry.cpp
  std::size_t num_layers = 2;
  std::size_t hidden_size = 64;
  std::size_t num_attention_heads = 4;
  std::size_t num_key_value_heads = 0;  ///< 0: num_attention_heads
  std::size_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::size_t ffn_hidden_size = 0;      ///< 0: what the model has (ffn_width())
  bool add_qkv_bias = false;            ///< of the model llama; gpt has all biases
  double rope_theta = 10000.0;          ///< of the model llama
  double norm_eps = 1e-5;
  std::size_t seq_length = 64;
  std::size_t vocab_size = 0;          ///< 0: the token source's
  bool tied_head = true;               ///< the head reads the token embedding again
  bool recompute_activations = false;  ///< blocks keep their input alone for backward: every
  std::size_t recompute_interval = 1;  ///< so many blocks one, from the first on
  bool cpu_checkpointing = false;      ///< these inputs wait for backward on the host
  /// A decoder that is planned alone has its own, and `name` is what its file calls it. The
  /// trainer's models have none.
  std::optional<Parts> parts = std::nullopt;
};

/// Whether the model has blocks with attention heads, and an output head: the options of these have
/// no effect on `quadratic`.
inline bool is_transformer(const Options& options) { return options.name != "quadratic"; }
/// Llama (Touvron et al., arXiv 2302.13971) and, with add_qkv_bias, Qwen2 (arXiv 2407.10671).
inline bool is_llama(const Options& options) { return options.name == "llama" && !options.parts; }

inline Parts parts_of(const Options& options) {
  if (options.parts) return *options.parts;
  if (!is_llama(options)) return {.position_rows = options.seq_length};
  return {.rms_norm = true,
          .norm_bias = false,
          .gated_mlp = true,
          .mlp_bias = false,
          .rotary = true,
          .qkv_bias = options.add_qkv_bias,
          .out_bias = false};
}

inline std::size_t kv_heads(const Options& options) {
  return options.num_key_value_heads > 0 ? options.num_key_value_heads
                                         : options.num_attention_heads;
}
inline std::size_t head_width(const Options& options) {
  return options.head_dim > 0 ? options.head_dim
                              : options.hidden_size / options.num_attention_heads;
}
/// Columns of a head that rotary positions turn.
inline std::size_t rotary_width(const Options& options) {
  const std::size_t latent = parts_of(options).latent.rotary_width;
  return latent > 0 ? latent : head_width(options);
}
/// Columns of a block's queries.
inline std::size_t query_width(const Options& options) {
  return options.num_attention_heads * head_width(options);
}
/// Columns of queries, keys and values.
inline std::size_t qkv_width(const Options& options) {
  return query_width(options) + 2 * kv_heads(options) * head_width(options);
}
/// Width of a block's MLP: by default four times the hidden size, of a gated one 8/3 times, up to
/// the next multiple of 256, as Llama has it.
inline std::size_t ffn_width(const Options& options) {
  if (options.ffn_hidden_size > 0) return options.ffn_hidden_size;
  if (!parts_of(options).gated_mlp) return 4 * options.hidden_size;
  constexpr std::size_t kMultiple = 256;
  return (8 * options.hidden_size + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}
/// Columns that the MLP's first matrix makes: gate and up, of a gated one.
inline std::size_t fc_width(const Options& options) {
  return (parts_of(options).gated_mlp ? 2 : 1) * ffn_width(options);
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

}  // namespace zeropp::model
