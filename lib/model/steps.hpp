// The steps of a decoder's layers, in order. Tensors (transformer_units.hpp), memory
// (transformer_sizes.hpp), operations, and the times that are planned (lib/plan/layer_costs.hpp)
// all follow from this list. Pure functions of options; sizes are columns: values of one token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/model/options.hpp"

namespace zeropp::model {

/// Purpose of a tensor in its unit: "embedding", "h.<i>" or "head". A model has some of them.
enum Role : std::size_t {
  kTokenTable,
  kPositionTable,
  kLn1Weight,
  kLn1Bias,
  kQkvWeight,  ///< rows of the queries of all heads, of the keys, and of the values
  kQkvBias,
  kAttentionWeight,
  kAttentionBias,
  kLn2Weight,
  kLn2Bias,
  kFcWeight,  ///< of a gated MLP rows of the gate, then of up
  kFcBias,
  kMlpWeight,
  kMlpBias,
  kLnFWeight,
  kLnFBias,
  kHeadWeight,  ///< where the head is not tied
  kRoles,
  kPlanned = kRoles  ///< of a tensor that the trainer's models do not have
};

enum class StepKind : std::uint8_t {
  norm,
  product,     ///< by the matrix [out, in] of each of its copies
  attention,   ///< `in`: queries, keys and values
  activation,  ///< of an MLP; with twice as many columns in as out, gated
  move         ///< values are copied or turned
};

struct Step {
  StepKind kind = StepKind::product;
  std::string_view name = {};  ///< of its tensors, "attn.qkv"
  Role role = kPlanned;        ///< of its weight; its bias has the next one
  std::size_t in = 0;
  std::size_t out = 0;
  bool bias = false;
  std::size_t copies = 1;      ///< experts, each of which has a matrix and a bias
  std::size_t uses = 1;        ///< experts that a token goes through: so many rows for each token
  std::size_t vector = 0;      ///< values of a norm's weight, of sinks or an activation's
  std::size_t statistics = 0;  ///< fp32 values that a norm keeps of a token
  bool residual = false;       ///< the matrix writes to the residual stream
  /// The step makes a block's output, or a term of it: the next layer keeps that, and backward does
  /// not make it again.
  bool ends = false;
  bool keeps = true;  ///< backward reads what is made

  [[nodiscard]] std::size_t kept() const { return keeps && !ends ? uses * out : 0; }
};

/// Steps of a block with a dense MLP, or with experts.
std::vector<Step> block_steps(const Options& options, bool experts);
/// Steps after the table of tokens, and those between the last block and the head's matrix.
std::vector<Step> embedding_steps(const Options& options);
std::vector<Step> head_steps(const Options& options);

/// Columns of the table of tokens, and of the head's matrix.
inline std::size_t table_width(const Options& options) {
  const std::size_t narrow = parts_of(options).embedded_width;
  return narrow > 0 ? narrow : options.hidden_size;
}

/// Blocks of one kind.
struct BlockKind {
  bool experts = false;
  std::size_t blocks = 0;
  std::vector<Step> steps = {};
};
/// The kinds that a model has.
std::vector<BlockKind> block_kinds(const Options& options);

/// Operations per token, forward: 2 in out for each matrix that a token goes through; of attention
/// 2 T for each column of queries and of what is made, over all T positions.
double step_flops(const Step& step, const Options& options);

}  // namespace zeropp::model
