// Writes a case for zpp-validate oracle: what a model was given and what it answered. The format
// is described there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/optim/options.hpp"
#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::test {

class OracleCase {
 public:
  /// Makes `folder` and describes the model: `vocab_size` is the one it was built with.
  OracleCase(std::filesystem::path folder, const model::Options& options, std::size_t vocab_size,
             const std::vector<zero::Unit>& units)
      : folder_(std::move(folder)), units_(units) {
    std::filesystem::create_directories(folder_);
    manifest_["model"] = {{"name", options.name},
                          {"num_layers", options.num_layers},
                          {"hidden_size", options.hidden_size},
                          {"num_attention_heads", options.num_attention_heads},
                          {"num_key_value_heads", options.num_key_value_heads},
                          {"head_dim", options.head_dim},
                          {"ffn_hidden_size", options.ffn_hidden_size},
                          {"add_qkv_bias", options.add_qkv_bias},
                          {"rope_theta", options.rope_theta},
                          {"norm_eps", options.norm_eps},
                          {"seq_length", options.seq_length},
                          {"vocab_size", vocab_size},
                          {"tied_head", options.tied_head}};
    for (const zero::Unit& unit : units) {
      for (const zero::Tensor& tensor : unit.tensors) {
        manifest_["tensors"].push_back(
            {{"name", tensor.name}, {"shape", tensor.shape}, {"decay", tensor.decay}});
      }
    }
  }

  void optimizer(const optim::Options& options, double gradient_clipping) {
    manifest_["optimizer"] = {{"beta1", options.beta1},
                              {"beta2", options.beta2},
                              {"epsilon", options.epsilon},
                              {"weight_decay", options.weight_decay},
                              {"gradient_clipping", gradient_clipping}};
  }

  /// Adds a step: all its sequences as the model reads them, the mean loss over them, and the
  /// learning rate it was taken with.
  void step(const zero::Batch& batch, double loss, double learning_rate) {
    manifest_["batches"].push_back({{"sequences", batch.sequences}, {"length", batch.length}});
    manifest_["losses"].push_back(loss);
    manifest_["learning_rates"].push_back(learning_rate);
    tokens_.insert(tokens_.end(), batch.tokens.begin(), batch.tokens.end());
    targets_.insert(targets_.end(), batch.targets.begin(), batch.targets.end());
  }

  /// Writes tensors. `name`: "weights.f32", "gradients.f32" or "final.f32"; flat[u]: the flat
  /// buffer of unit u.
  void tensors(const std::string& name, const std::vector<std::vector<float>>& flat) const {
    std::vector<float> packed;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const zero::Tensor& tensor : units_[u].tensors) {
        const auto part = std::span(flat[u]).subspan(tensor.offset, tensor.count());
        packed.insert(packed.end(), part.begin(), part.end());
      }
    }
    write(name, packed);
  }

  /// Writes tokens, targets and the manifest: the last call.
  void finish() const {
    write("tokens.i32", tokens_);
    write("targets.i32", targets_);
    std::ofstream file(folder_ / "manifest.json");
    file << manifest_.dump(1) << '\n';
    file.close();
    if (!file) throw std::runtime_error("cannot write " + (folder_ / "manifest.json").string());
  }

 private:
  template <class T>
  void write(const std::string& name, const std::vector<T>& values) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + (folder_ / name).string());
  }

  std::filesystem::path folder_;
  std::vector<zero::Unit> units_;
  nlohmann::json manifest_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
};

}  // namespace zeropp::test
