// The shape of a model in a configuration of Hugging Face's transformers (config.json), with the
// keys of GPT-2 (n_embd) or of Llama and its relatives (hidden_size), as the GPT of this suite.
#pragma once

#include <filesystem>
#include <string>

#include "lib/model/options.hpp"

namespace zeropp::plan {

struct HfModel {
  model::Options model;
  /// One sentence: the GPT that is planned in the model's place, and what is approximated.
  std::string note;
};

/// Throws Error(io) when the file cannot be read, Error(usage), one line with the file, the key and
/// the remedy, for malformed JSON, a missing key, a value that is no size, or a mixture of experts.
HfModel read_hf_config(const std::filesystem::path& path);
/// Reads text; `name` stands for the file in messages.
HfModel parse_hf_config(const std::string& text, const std::string& name);

}  // namespace zeropp::plan
