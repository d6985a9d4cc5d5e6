// The table of architectures of Hugging Face's transformers: the parts of a type's blocks, what its
// class takes for keys that are missing, and the keys that decide about parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/parts.hpp"
#include "lib/plan/hf_keys.hpp"

namespace zeropp::plan {

/// Sizes of a decoder. In the defaults of a class 0 stands for what follows from the others: as
/// many key-value heads as heads, heads of hidden / heads, an MLP of 4 x hidden.
struct HfSizes {
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_size = 0;
  std::size_t mlp = 0;  ///< width inside the MLP, of each of the two halves where it is gated
  std::size_t vocab = 0;
  std::size_t positions = 0;  ///< tokens of the longest sequence
};

/// A part that a key turns on or off; without the key the class has it as the row says.
struct HfSwitch {
  const char* key;
  bool model::Parts::*part;
};

/// A row of the table.
struct HfArchitecture {
  const char* types;   ///< values of model_type, with commas between; the first is its name
  HfSizes usual;       ///< of the class
  model::Parts parts;  ///< experts and latent attention with the sizes of the class
  bool tied = false;
  std::vector<HfSwitch> switches = {};
  /// Rows of a table of positions beyond the longest sequence; none: there is no such table.
  std::optional<std::size_t> padding_positions = std::nullopt;
  std::size_t shared_experts = 0;  ///< of the class, each as wide as the others
  /// Takes what other keys decide.
  void (*adjust)(const HfKeys& keys, model::Parts& parts, HfSizes& sizes) = nullptr;
};

/// The row that has the model_type `type`; null where there is none.
const HfArchitecture* hf_architecture(const std::string& type);
/// The row that a decoder of an unknown type is planned as: GPT-2's, or a gated decoder's.
const HfArchitecture& usual_hf_architecture(bool gpt2);

}  // namespace zeropp::plan
