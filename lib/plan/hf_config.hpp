// A model in a configuration of Hugging Face's transformers (config.json) as a GPT of this suite
// with as many parameters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/model/options.hpp"

namespace zeropp::plan {

/// Tokens of a planned sequence where nobody says how many, at most: models take far longer ones
/// than they are trained with.
inline constexpr std::size_t kLongestUnasked = 8192;

struct HfModel {
  model::Options model;
  std::size_t parameters = 0;  ///< of the file's model; those of `model` are within 1 % of them
  std::string dtype = {};      ///< of the file's weights, "bfloat16"; empty: it does not say
  std::string note = {};       ///< one line: the model, and the GPT that is planned in its place
  std::string warning = {};    ///< one line about a count that may be wrong; else empty
};

/// `seq_length`: tokens of a sequence; where nobody gave them, the model's, kLongestUnasked at
/// most. Throws Error(io) when the file cannot be read, Error(usage), one line with the file, the
/// key and the remedy, for malformed JSON, a missing key, a value that is no size, and a model that
/// is no dense decoder.
HfModel read_hf_config(const std::filesystem::path& path,
                       std::optional<std::size_t> seq_length = std::nullopt);
/// Reads text; `name` stands for the file in messages.
HfModel parse_hf_config(const std::string& text, const std::string& name,
                        std::optional<std::size_t> seq_length = std::nullopt);

}  // namespace zeropp::plan
