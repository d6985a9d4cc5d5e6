// The parts that a decoder is made of, beside its sizes (options.hpp). The models of the trainer
// are two values of Parts, decoders of other architectures that are planned are others
// (lib/plan/hf_architectures.cpp). steps.hpp has the steps that follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace zeropp::model {

/// Where the norms of a block stand: before attention and MLP, on what they add, or both.
enum class NormPlace : std::uint8_t { before, after, around };
/// Norms of queries and keys: one that all heads share, one for each head, or one over all heads.
enum class QkNorm : std::uint8_t { none, shared, each, whole };

/// Latent attention (DeepSeek-V2, arXiv 2405.04434): queries, and keys with values, come from
/// narrow rows. A head's queries and keys are plain_width + rotary_width wide, which is
/// Options::head_dim; all heads share the rotary part of the keys.
struct Latent {
  std::size_t key_rank = 0;    ///< width of the rows of keys and values; 0: attention is not latent
  std::size_t query_rank = 0;  ///< 0: queries come from the residual stream
  std::size_t rotary_width = 0;
  std::size_t value_width = 0;  ///< of a head

  bool operator==(const Latent&) const = default;
};

/// Experts instead of the MLP of some blocks (Shazeer et al., arXiv 1701.06538). Each block has
/// all of them, and a token goes through `per_token`.
struct Experts {
  std::size_t count = 0;  ///< 0: no block has experts
  std::size_t per_token = 0;
  std::size_t width = 0;         ///< of an expert's MLP
  std::size_t shared_width = 0;  ///< of an MLP beside them that all tokens go through; 0: none
  bool shared_gate = false;      ///< that MLP's output is weighted, token by token
  bool router_bias = false;
  bool bias = false;  ///< of the experts' products
  // Blocks first .. end - 1 have experts where interval divides their number, counted from 1, but
  // for those that are named as dense.
  std::size_t first = 0;
  std::size_t end = std::numeric_limits<std::size_t>::max();
  std::size_t interval = 1;
  std::vector<std::size_t> dense = {};

  bool operator==(const Experts&) const = default;
};

/// Members that are left out are GPT-2's.
struct Parts {
  bool rms_norm = false;    ///< RMS normalisation; else layer normalisation
  bool norm_weight = true;  ///< norms scale what they make
  bool norm_bias = true;    ///< and add to it
  NormPlace norm_place = NormPlace::before;
  bool last_norm = true;        ///< before the head
  bool embedding_norm = false;  ///< after the table of tokens
  bool parallel = false;        ///< attention and MLP of a block read the same residual stream
  bool one_norm = false;        ///< and the same norm of it

  bool gated_mlp = false;                 ///< two products, the one multiplied by the other's gate
  std::size_t activation_parameters = 0;  ///< of the MLP's activation
  bool mlp_bias = true;

  bool rotary = false;             ///< rotary positions
  std::size_t position_rows = 0;   ///< of a table of positions; 0: there is none
  std::size_t embedded_width = 0;  ///< of the table of tokens, projected; 0: the hidden size
  bool head_bias = false;

  bool qkv_bias = true;
  bool out_bias = true;  ///< of attention's output
  QkNorm qk_norm = QkNorm::none;
  bool sinks = false;  ///< each head attends to a value that it learns, too

  Latent latent = {};
  Experts experts = {};

  bool operator==(const Parts&) const = default;
};

/// Whether that block has experts instead of an MLP.
inline bool has_experts(const Parts& parts, std::size_t block) {
  const Experts& experts = parts.experts;
  if (experts.count == 0 || block < experts.first || block >= experts.end) return false;
  for (const std::size_t dense : experts.dense) {
    if (dense == block) return false;
  }
  return (block + 1) % experts.interval == 0;
}

}  // namespace zeropp::model
