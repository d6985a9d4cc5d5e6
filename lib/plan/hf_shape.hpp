// Sizes and number of parameters of a decoder that a config.json of Hugging Face's transformers
// describes: one table of architectures, with what their blocks have and their classes' defaults.
// Counts are those of the classes' parameters; tests/cli/hf_models.json has them for public files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

struct HfShape {
  std::string_view counted_as;  ///< model_type of the table's row
  bool known = false;           ///< whether the file's model_type is of that row
  HfSizes sizes;
  bool gated_mlp = false;
  bool position_table = false;
  bool tied_head = false;
  std::size_t parameters = 0;
};

/// Shape of the decoder whose keys `keys` has. `type`: its model_type. Without one, and for one
/// that the table has not, the keys decide: n_embd is GPT-2's, a gated activation Llama's; then no
/// size has a default. Throws Error(usage), one line, for a missing key, a value that is no size,
/// and a model that is no dense decoder of attention and an MLP.
HfShape read_hf_shape(const HfKeys& keys, const std::string& type);

}  // namespace zeropp::plan
