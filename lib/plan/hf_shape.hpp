// Parts and sizes of a decoder that a config.json of Hugging Face's transformers describes, by
// the table of architectures (hf_architectures.hpp). The parameters that follow are those of the
// classes, to the parameter: tests/cli/hf_models.json has public files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/model/options.hpp"
#include "lib/plan/hf_keys.hpp"

namespace zeropp::plan {

struct HfShape {
  std::string_view planned_as;  ///< model_type of the table's row
  bool known = false;           ///< whether the file's model_type is of that row
  model::Options model = {};    ///< with parts, and sequences of the longest length
};

/// Shape of the decoder whose keys `keys` has. `type`: its model_type. Without one, and for one
/// that the table has not, the keys decide: n_embd is GPT-2's, a gated activation Llama's; then no
/// size has a default. Throws Error(usage), one line, for a missing key, a value that is no size,
/// and a model that has other blocks than those of attention and an MLP or experts.
HfShape read_hf_shape(const HfKeys& keys, const std::string& type);

/// Where a model of the trainer has the parts of `model`, makes it that one.
void take_trainers(model::Options& model);

}  // namespace zeropp::plan
