// A model in a configuration of Hugging Face's transformers (config.json), to be planned with its
// own units.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "lib/model/options.hpp"

namespace zeropp::plan {

/// Tokens of a planned sequence where nobody says how many, at most: models take far longer ones
/// than they are trained with.
inline constexpr std::size_t kLongestUnasked = 8192;

struct HfModel {
  std::string file = {};        ///< as messages name it
  std::string type = {};        ///< model_type; empty: the file has none
  model::Options model = {};    ///< sequences of kLongestUnasked tokens at most
  std::size_t positions = 0;    ///< tokens of the longest sequence
  bool is_part = false;         ///< of a model with towers of images or sound
  std::string planned_as = {};  ///< the type whose parts it has
  bool known = true;            ///< whether that is its own type
  std::string dtype = {};       ///< of the file's weights, "bfloat16"; empty: it does not say
};

/// Throws Error(io) when the file cannot be read, Error(usage), one line with the file, the key and
/// the remedy, for malformed JSON, a missing key, a value that is no size, and a model that is not
/// planned (hf_shape.hpp).
HfModel read_hf_config(const std::filesystem::path& path);
/// Reads text; `name` stands for the file in messages.
HfModel parse_hf_config(const std::string& text, const std::string& name);

/// One line: the file's model, its parameters and sizes, as `planned` has them after other options
/// replaced some.
std::string describe_hf_model(const HfModel& read, const model::Options& planned);
/// One line about parameters that may be others than the model's; empty where they are not.
std::string doubt_hf_model(const HfModel& read, const model::Options& planned);

}  // namespace zeropp::plan
