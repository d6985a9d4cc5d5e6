#include "lib/plan/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/config/json.hpp"
#include "lib/model/transformer_units.hpp"
#include "lib/plan/hf_shape.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

constexpr double kMostDeviation = 0.01;

std::size_t parameters_of(const model::Options& model) {
  model::Options one = model;
  one.num_layers = 1;
  const std::vector<zero::Unit> units = model::transformer_units(one, model.vocab_size);
  return units[0].parameters() + model.num_layers * units[1].parameters() + units[2].parameters();
}

/// Gives the GPT's MLP the width with which it has `parameters`. A plain MLP with as many weights
/// as the file's blocks have there, and with what their attention has more or less, moves as many
/// bytes, does as many operations for a token, and keeps as many activations: a gated MLP of width
/// f has 3 f h weights and keeps 3 f values of a token, a plain one of 1.5 f has and keeps as many.
/// Depth and width of the model stay, and so do the units that are gathered and the inputs of
/// blocks.
void fit_mlp(model::Options& model, std::size_t parameters) {
  const auto with_width = [&](std::size_t width) {
    model.ffn_hidden_size = width;
    return static_cast<double>(parameters_of(model));
  };
  const double narrowest = with_width(1);
  const double of_width = with_width(2) - narrowest;
  const double more = std::round((static_cast<double>(parameters) - narrowest) / of_width);
  model.ffn_hidden_size = 1 + static_cast<std::size_t>(std::max(more, 0.0));
}

/// The part of a model of several kinds of input that is a language model; else the whole.
const json& decoder_of(const json& object) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_object()) return *found;
  }
  return object;
}

/// Number of heads: the file's, or the next smaller one that divides the width into heads of a
/// multiple of 8, where the file's are: attention is fused for these alone, and keeps less.
std::size_t heads_of(const HfSizes& sizes) {
  const std::size_t multiple = sizes.head_size % 8 == 0 && sizes.hidden % 8 == 0 ? 8 : 1;
  std::size_t heads = std::min(sizes.heads, sizes.hidden / multiple);
  while (sizes.hidden % (heads * multiple) != 0) --heads;
  return heads;
}

model::Options model_of(const HfShape& shape, std::optional<std::size_t> seq_length) {
  const HfSizes& sizes = shape.sizes;
  model::Options model;
  model.num_layers = sizes.layers;
  model.hidden_size = sizes.hidden;
  model.num_attention_heads = heads_of(sizes);
  model.seq_length = seq_length.value_or(std::min(sizes.positions, kLongestUnasked));
  model.vocab_size = sizes.vocab;
  model.tied_head = shape.tied_head;
  fit_mlp(model, shape.parameters);
  if (model.ffn_hidden_size == 4 * model.hidden_size) model.ffn_hidden_size = 0;  // a GPT's own
  return model;
}

/// Parts of the model that the GPT does not have, or has in another form.
std::string other_parts(const HfShape& shape, const model::Options& model) {
  const HfSizes& sizes = shape.sizes;
  std::string text = fmt::format("its MLP of {} stands for {} of {}", model::ffn_width(model),
                                 shape.gated_mlp ? "a gated one" : "one", sizes.mlp);
  const std::size_t even = model.hidden_size / model.num_attention_heads;
  if (sizes.kv_heads != sizes.heads || sizes.head_size != even) {
    text +=
        fmt::format(", with {} key-value heads and heads of {}", sizes.kv_heads, sizes.head_size);
  }
  return text;
}

std::string lengths(const HfShape& shape, const model::Options& model) {
  const std::size_t most = shape.sizes.positions;
  const std::string tokens = fmt::format("{} tokens per sequence", model.seq_length);
  return model.seq_length == most
             ? tokens + " (--seq-length)"
             : fmt::format("{} of the {} that the model takes (--seq-length)", tokens, most);
}

}  // namespace

HfModel parse_hf_config(const std::string& text, const std::string& name,
                        std::optional<std::size_t> seq_length) {
  const json whole = config::parse_object(text, name);
  const json& found = decoder_of(whole);
  const bool is_part = &found != &whole;
  json decoder = found;
  const HfKeys outer(whole, name);
  if (is_part && !decoder.contains("tie_word_embeddings") && outer.has("tie_word_embeddings")) {
    decoder["tie_word_embeddings"] = whole.at("tie_word_embeddings");
  }
  const HfKeys keys(decoder, name);
  const std::string own_type = keys.text("model_type");
  const std::string type = own_type.empty() ? outer.text("model_type") : own_type;
  const HfShape shape = read_hf_shape(keys, type);
  HfModel made{.model = model_of(shape, seq_length), .parameters = shape.parameters};
  for (const HfKeys* each : {&keys, &outer}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (made.dtype.empty()) made.dtype = each->text(key);
    }
  }
  const auto planned = static_cast<double>(parameters_of(made.model));
  const auto counted = static_cast<double>(shape.parameters);
  const double deviation = planned / counted - 1;
  if (std::abs(deviation) > kMostDeviation) {
    throw Error(ExitCode::usage,
                fmt::format("{}: no GPT of {} layers x {} has about the {:.4g} billion parameters "
                            "of this model: give --num-layers, --hidden-size, "
                            "--num-attention-heads, --seq-length and --vocab-size of one that has",
                            name, made.model.num_layers, made.model.hidden_size, counted * 1e-9));
  }
  made.note = fmt::format(
      "{} ({}): {:.4g} billion parameters{}. Planned is a GPT with as many ({:+.3f} %): {} layers "
      "x {}; {}; {}{}",
      name, type.empty() ? fmt::format("no model_type, counted as {}", shape.counted_as) : type,
      counted * 1e-9, is_part ? " without its towers of images or sound" : "", 100 * deviation,
      made.model.num_layers, made.model.hidden_size, other_parts(shape, made.model),
      lengths(shape, made.model),
      shape.tied_head ? "; each pass gathers the tied head's table once more" : "");
  if (!shape.known) {
    made.warning = fmt::format(
        "{}: model_type {} is not one that zpp_plan knows, and its parameters are counted as those "
        "of {}: compare {:.4g} billion with what its card says, and else give --num-layers, "
        "--hidden-size and so on",
        name, type, shape.counted_as, counted * 1e-9);
  }
  return made;
}

HfModel read_hf_config(const std::filesystem::path& path, std::optional<std::size_t> seq_length) {
  return parse_hf_config(config::read_config_text(path, "the model's configuration", "--hf-config"),
                         path.string(), seq_length);
}

}  // namespace zeropp::plan
