// Names of the GPT's tensors in checkpoints of GPT-2 for `transformers`. Its architecture is
// GPT-2's (LayerNorm with 1e-5 before attention and MLP, tanh GELU, biases everywhere, a head
// without one); what differs is that GPT-2 keeps the matrices of a block as [in, out].
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

struct Gpt2Tensor {
  std::string name;                ///< "transformer.h.3.attn.c_attn.weight"
  std::vector<std::size_t> shape;  ///< as the file has it
  bool transposed = false;         ///< it is the transpose of ours
};

/// Name and form, in GPT-2's checkpoints, of a tensor of transformer_units().
Gpt2Tensor gpt2_tensor(const zero::Tensor& own);

/// Name as files of the bare model have it: without "transformer.".
std::string_view without_prefix(std::string_view name);

/// The text of `config.json`, from which `transformers` makes the model. `vocab_size`: the
/// effective one.
std::string gpt2_config(const Options& options, std::size_t vocab_size);

}  // namespace zeropp::model
