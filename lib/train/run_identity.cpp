#include "lib/train/run_identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernels/optim/options.hpp"
#include "lib/base/error.hpp"

namespace zeropp::train {

namespace {

using nlohmann::json;

constexpr const char* kTensors = "tensors";

/// Whether the optimizer keeps a momentum, and null where there is none to keep.
json momentum_of(const optim::Options& options) {
  if (!optim::reads(options.type, "momentum")) return nullptr;
  return options.momentum > 0 ? "above 0" : "0";
}

/// Width of a head, and null where it follows from other sizes.
json head_dim_of(const model::Options& model) {
  const bool follows =
      !model::is_transformer(model) || model::query_width(model) == model.hidden_size;
  return follows ? json() : json(model::head_width(model));
}

json tensors_of(const std::vector<zero::Unit>& units) {
  json list = json::array();
  for (const zero::Unit& unit : units) {
    for (const zero::Tensor& tensor : unit.tensors) {
      list.push_back({unit.name, tensor.name, tensor.shape});
    }
  }
  return list;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& key, const json& there,
                         const json& here) {
  throw Error(ExitCode::usage, fmt::format("{} is of a run with {} {}, and this one has {}: give "
                                           "that, or another folder",
                                           folder, key, there.dump(), here.dump()));
}

/// The first entry of a list of tensors that the other list does not have in its place.
void require_same_tensors(const json& saved, const json& own, const std::string& folder) {
  if (saved == own) return;
  const auto entry = [](const json& list, std::size_t index) {
    return list.is_array() && index < list.size() ? list[index] : json();
  };
  std::size_t index = 0;
  while (entry(saved, index) == entry(own, index) && index < own.size()) ++index;
  refuse(folder, fmt::format("the tensor (unit, name, shape) number {}", index),
         entry(saved, index), entry(own, index));
}

}  // namespace

json identity_of(const config::TrainConfig& config, std::size_t vocab_size,
                 const std::vector<zero::Unit>& units) {
  const bool transformer = model::is_transformer(config.model);
  const bool llama = model::is_llama(config.model);
  return {{"model", config.model.name},
          {"num-layers", config.model.num_layers},
          {"hidden-size", config.model.hidden_size},
          {"num-attention-heads", config.model.num_attention_heads},
          {"head-dim", head_dim_of(config.model)},
          {"rope-theta", llama ? json(config.model.rope_theta) : json()},
          {"norm-eps", transformer ? json(config.model.norm_eps) : json()},
          {"seq-length", config.model.seq_length},
          {"vocab-size", vocab_size},
          {"tied-head", transformer ? json(config.model.tied_head) : json()},
          {"optimizer", config.optimizer.type},
          {"sgd-momentum", momentum_of(config.optimizer)},
          {kTensors, tensors_of(units)}};
}

std::vector<std::string> require_same_run(const json& saved, const json& own,
                                          const std::string& folder) {
  if (!saved.is_object()) refuse(folder, "an identity that is", saved.type_name(), "object");
  std::vector<std::string> unknown;
  for (const auto& [key, value] : own.items()) {
    if (!saved.contains(key)) {
      unknown.push_back(key);
    } else if (key != kTensors && saved[key] != value) {
      refuse(folder, "--" + key, saved[key], value);
    }
  }
  for (const auto& [key, value] : saved.items()) {
    if (!own.contains(key)) refuse(folder, "--" + key, value, json());
  }
  if (saved.contains(kTensors)) require_same_tensors(saved[kTensors], own[kTensors], folder);
  return unknown;
}

}  // namespace zeropp::train
