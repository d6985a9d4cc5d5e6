#include "lib/plan/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/config/json.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

constexpr double kLargestSize = std::numeric_limits<int>::max();
constexpr const char* kRemedy =
    "give a config.json with the keys of GPT-2 or of Llama, or --num-layers, --hidden-size, "
    "--num-attention-heads, --seq-length and --vocab-size";

/// Reads keys of one configuration.
class Keys {
 public:
  Keys(const json& object, std::string name) : object_(object), name_(std::move(name)) {}

  [[nodiscard]] bool has(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }
  /// Nothing where the key is missing or null, which a library's default stands for.
  [[nodiscard]] std::optional<std::size_t> size_if_any(const char* key) const {
    if (!has(key)) return std::nullopt;
    const json& value = object_.at(key);
    const double number = value.is_number() ? value.get<double>() : 0;
    if (!(number >= 1 && number <= kLargestSize) || number != std::floor(number)) {
      throw Error(ExitCode::usage, fmt::format("{}: {} must be a whole number from 1 to {:.0f}: {}",
                                               name_, key, kLargestSize, kRemedy));
    }
    return static_cast<std::size_t>(number);
  }
  /// The first of `keys` that is there. Throws Error(usage) where none is.
  [[nodiscard]] std::size_t size(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      if (const auto found = size_if_any(key)) return *found;
    }
    throw Error(ExitCode::usage,
                fmt::format("{}: {} is missing: {}", name_, fmt::join(keys, " or "), kRemedy));
  }
  [[nodiscard]] bool is(const char* key, bool otherwise) const {
    return has(key) && object_.at(key).is_boolean() ? object_.at(key).get<bool>() : otherwise;
  }
  [[nodiscard]] std::string text(const char* key) const {
    return has(key) && object_.at(key).is_string() ? object_.at(key).get<std::string>() : "";
  }
  void refuse_experts() const {
    for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      if (!has(key) || object_.at(key) == 0 || object_.at(key) == 1) continue;
      throw Error(ExitCode::usage,
                  fmt::format("{}: {}: a mixture of experts cannot be planned as a GPT: {}", name_,
                              key, kRemedy));
    }
  }

 private:
  const json& object_;
  std::string name_;
};

model::Options sizes_of(const Keys& keys) {
  const bool gpt2 = keys.has("n_embd");
  model::Options model;
  if (gpt2) {
    model.num_layers = keys.size({"n_layer"});
    model.hidden_size = keys.size({"n_embd"});
    model.num_attention_heads = keys.size({"n_head"});
    model.seq_length = keys.size({"n_positions", "n_ctx"});
  } else {
    model.hidden_size = keys.size({"hidden_size", "n_embd"});
    model.num_layers = keys.size({"num_hidden_layers"});
    model.num_attention_heads = keys.size({"num_attention_heads"});
    model.seq_length = keys.size({"max_position_embeddings"});
  }
  model.vocab_size = keys.size({"vocab_size"});
  model.tied_head = keys.is("tie_word_embeddings", true);
  return model;
}

/// What the GPT does not have, and has something else for.
std::vector<std::string> approximated(const Keys& keys, const model::Options& model) {
  std::vector<std::string> parts;
  const std::size_t heads = model.num_attention_heads;
  const std::size_t grouped = keys.size_if_any("num_key_value_heads").value_or(heads);
  if (grouped != heads) {
    parts.push_back(fmt::format("{} key-value heads as {}", grouped, heads));
  }
  const std::size_t head_size = keys.size_if_any("head_dim").value_or(model.hidden_size / heads);
  if (head_size * heads != model.hidden_size) {
    parts.push_back(fmt::format("heads of {} as of {}", head_size, model.hidden_size / heads));
  }
  const std::size_t usual = 4 * model.hidden_size;
  const std::size_t width =
      keys.size_if_any(keys.has("n_embd") ? "n_inner" : "intermediate_size").value_or(usual);
  const std::string type = keys.text("model_type");
  const bool gated = keys.text("hidden_act") == "silu" || type.starts_with("gemma");
  if (gated) {
    parts.push_back(fmt::format("a gated MLP of width {} as a plain one of {}", width, usual));
  } else if (width != usual) {
    parts.push_back(fmt::format("an MLP of width {} as one of {}", width, usual));
  }
  if (keys.is("multi_query", false)) {
    parts.push_back(fmt::format("1 key-value head as {}", heads));
  }
  if (!keys.has("n_embd") || (!type.empty() && type != "gpt2")) {
    parts.emplace_back("positions, blocks and norms as GPT-2 has them");
  }
  return parts;
}

}  // namespace

HfModel parse_hf_config(const std::string& text, const std::string& name) {
  const json object = config::parse_object(text, name);
  const Keys keys(object, name);
  keys.refuse_experts();
  HfModel made{sizes_of(keys), {}};
  const model::Options& model = made.model;
  const std::vector<std::string> parts = approximated(keys, model);
  made.note = fmt::format(
      "{} is planned as a GPT of {} layers x {}, {} heads, {} tokens a sequence (--seq-length), a "
      "vocabulary of {} and {} head; approximated: {}",
      name, model.num_layers, model.hidden_size, model.num_attention_heads, model.seq_length,
      model.vocab_size, model.tied_head ? "a tied" : "an untied",
      parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", ")));
  return made;
}

HfModel read_hf_config(const std::filesystem::path& path) {
  return parse_hf_config(config::read_config_text(path, "the model's configuration", "--hf-config"),
                         path.string());
}

}  // namespace zeropp::plan
