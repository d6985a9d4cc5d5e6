#include "lib/plan/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/config/json.hpp"
#include "lib/model/steps.hpp"
#include "lib/model/transformer_units.hpp"
#include "lib/plan/hf_shape.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

/// The part of a model of several kinds of input that is a language model; else the whole.
const json& decoder_of(const json& object) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_object()) return *found;
  }
  return object;
}

std::string billions(std::size_t parameters) {
  return fmt::format("{:.4g} billion", static_cast<double>(parameters) * 1e-9);
}

std::string mlp_text(const model::Options& model, const model::Parts& parts) {
  const model::Experts& experts = parts.experts;
  const char* const kind = parts.gated_mlp ? "gated MLP" : "MLP";
  std::string dense = fmt::format("{} of {}", kind, model::ffn_width(model));
  if (experts.count == 0) return dense;
  std::size_t mixed = 0;
  for (const model::BlockKind& each : model::block_kinds(model)) {
    if (each.experts) mixed += each.blocks;
  }
  std::string text = fmt::format("{} experts of {}, {} per token", experts.count, experts.width,
                                 experts.per_token);
  if (experts.shared_width > 0) text += fmt::format(", beside an MLP of {}", experts.shared_width);
  if (mixed < model.num_layers) {
    text += fmt::format(" (in {} layers; {} in the others)", mixed, dense);
  }
  return text + ", sharded as all else, without expert parallelism";
}

std::string heads_text(const model::Options& model, const model::Parts& parts) {
  const std::size_t heads = model.num_attention_heads;
  std::string text = fmt::format("{} heads of {}", heads, model::head_width(model));
  if (parts.latent.key_rank > 0) {
    return text + fmt::format(", keys and values from {}", parts.latent.key_rank);
  }
  if (model::kv_heads(model) == heads) return text;
  return text + fmt::format(" with {} key-value heads", model::kv_heads(model));
}

std::string length_text(std::size_t most, const model::Options& model) {
  const std::string tokens = fmt::format("{} tokens per sequence", model.seq_length);
  return model.seq_length == most
             ? tokens + " (--seq-length)"
             : fmt::format("{} of the {} that the model takes (--seq-length)", tokens, most);
}

}  // namespace

HfModel parse_hf_config(const std::string& text, const std::string& name) {
  const json whole = config::parse_object(text, name);
  const json& found = decoder_of(whole);
  json decoder = found;
  const HfKeys outer(whole, name);
  HfModel made{.file = name, .is_part = &found != &whole};
  if (made.is_part && !decoder.contains("tie_word_embeddings") &&
      outer.has("tie_word_embeddings")) {
    decoder["tie_word_embeddings"] = whole.at("tie_word_embeddings");
  }
  for (const char* part : {"attn_config", "ffn_config"}) {  // as DBRX and MPT have their keys
    if (decoder.contains(part) && decoder.at(part).is_object()) {
      const json keys = decoder.at(part);
      for (const auto& item : keys.items()) {
        if (!decoder.contains(item.key())) decoder[item.key()] = item.value();
      }
    }
  }
  const HfKeys keys(decoder, name);
  const std::string own_type = keys.text("model_type");
  made.type = own_type.empty() ? outer.text("model_type") : own_type;
  const HfShape shape = read_hf_shape(keys, made.type);
  made.model = shape.model;
  made.positions = shape.model.seq_length;
  made.model.seq_length = std::min(made.positions, kLongestUnasked);
  made.planned_as = shape.planned_as;
  made.known = shape.known;
  for (const HfKeys* each : {&keys, &outer}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (made.dtype.empty()) made.dtype = each->text(key);
    }
  }
  return made;
}

HfModel read_hf_config(const std::filesystem::path& path) {
  const bool is_model = std::filesystem::is_directory(path);  // a folder as of a checkpoint
  const std::filesystem::path file = is_model ? path / "config.json" : path;
  return parse_hf_config(config::read_config_text(file, "the model's configuration", "--hf-config"),
                         file.string());
}

std::string describe_hf_model(const HfModel& read, const model::Options& planned) {
  const model::Parts parts = model::parts_of(planned);
  const auto [all, active] = model::transformer_parameters(planned, planned.vocab_size);
  return fmt::format(
      "{} ({}): {} parameters{}{}: {} layers x {}, {}, {}; {}{}; {}", read.file,
      read.type.empty() ? "no model_type, planned as " + read.planned_as : read.type, billions(all),
      active < all ? ", " + billions(active) + " of them used per token" : "",
      read.is_part ? " without its towers of images or sound" : "", planned.num_layers,
      planned.hidden_size, heads_text(planned, parts), mlp_text(planned, parts),
      length_text(read.positions, planned),
      planned.tied_head ? "; each pass gathers the tied head's table once more" : "",
      planned.parts ? "zpp_train has no such blocks"
                    : fmt::format("zpp_train trains such blocks (--model {})", planned.name));
}

std::string doubt_hf_model(const HfModel& read, const model::Options& planned) {
  if (read.known) return "";
  return fmt::format(
      "{}: model_type {} is not one that zpp_plan knows, and it is planned with the blocks of {}: "
      "compare {} parameters with what its card says, and else give --num-layers, --hidden-size "
      "and so on",
      read.file, read.type, read.planned_as,
      billions(model::transformer_parameters(planned, planned.vocab_size).all));
}

}  // namespace zeropp::plan
