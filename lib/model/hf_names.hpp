// Names of a model's tensors in checkpoints of `transformers`: GPT-2's for gpt, Llama's or Qwen2's
// for llama. The architectures are the same; what differs is that GPT-2 keeps the matrices of a
// block as [in, out], and that Llama keeps queries, keys and values, and gate and up, apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// A tensor of theirs, which has a part of one of ours.
struct HfTensor {
  std::string name;                ///< "transformer.h.3.attn.c_attn.weight"
  std::vector<std::size_t> shape;  ///< as the file has it
  bool transposed = false;         ///< it is the transpose of ours
  std::size_t first = 0;           ///< elements of ours before its own

  [[nodiscard]] std::size_t count() const;
};

/// Tensors of theirs that a tensor of transformer_units() is, in order, and all of it.
std::vector<HfTensor> hf_tensors(const Options& options, const zero::Tensor& own);

/// Name as files of the bare model have it: without "transformer." or "model.".
std::string_view without_prefix(std::string_view name);

/// The text of `config.json`, from which `transformers` makes the model. `vocab_size`: the
/// effective one.
std::string hf_config(const Options& options, std::size_t vocab_size);

}  // namespace zeropp::model
