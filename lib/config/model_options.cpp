#include <limits>

#include "lib/config/options.hpp"

namespace zeropp::config {

namespace {

/// Largest size of a model in any direction: products of two stay within 64 bits.
constexpr double kLargestSize = std::numeric_limits<int>::max();

}  // namespace

void add_model(std::vector<Option>& table, TrainConfig& c) {
  const auto transformer = [&c] { return model::is_transformer(c.model); };
  const auto llama = [&c] { return model::is_llama(c.model); };
  table.insert(
      table.end(),
      {{.path = "zeropp.model.name",
        .flag = "--model",
        .field = &c.model.name,
        .help = "Model, a name from zpp_info"},
       {.path = "zeropp.model.num_layers",
        .flag = "--num-layers",
        .field = &c.model.num_layers,
        .help = "Transformer blocks, or units of the quadratic model",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.hidden_size",
        .flag = "--hidden-size",
        .field = &c.model.hidden_size,
        .help = "Width of the residual stream; of the quadratic model, parameters of a unit",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.num_attention_heads",
        .flag = "--num-attention-heads",
        .field = &c.model.num_attention_heads,
        .help = "Heads; divides the hidden size, unless --head-dim says their width",
        .range = between(1, kLargestSize),
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.num_key_value_heads",
        .flag = "--num-key-value-heads",
        .other_flags = {"--num-query-groups"},
        .field = &c.model.num_key_value_heads,
        .help = "Heads of keys and values, each of which serves as many query heads; 0: one for "
                "each",
        .range = between(0, kLargestSize),
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.head_dim",
        .flag = "--head-dim",
        .other_flags = {"--kv-channels"},
        .field = &c.model.head_dim,
        .help = "Width of a head; 0: the hidden size over the number of heads",
        .range = between(0, kLargestSize),
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.ffn_hidden_size",
        .flag = "--ffn-hidden-size",
        .field = &c.model.ffn_hidden_size,
        .help = "Width of a block's MLP; 0: 4 hidden sizes, of llama 8/3, up to a multiple of 256",
        .range = between(0, kLargestSize),
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.add_qkv_bias",
        .flag = "--add-qkv-bias",
        .field = &c.model.add_qkv_bias,
        .help = "Add biases to queries, keys and values, as Qwen2 does",
        .in_effect = llama,
        .effect_needs = "llama as zeropp.model.name, for gpt has them"},
       {.path = "zeropp.model.rope_theta",
        .flag = "--rope-theta",
        .other_flags = {"--rotary-base"},
        .field = &c.model.rope_theta,
        .help = "Base of the rotary positions' wavelengths",
        .range = {.minimum = 1, .minimum_excluded = true},
        .in_effect = llama,
        .effect_needs = "llama as zeropp.model.name"},
       {.path = "zeropp.model.norm_eps",
        .flag = "--norm-eps",
        .other_flags = {"--norm-epsilon", "--layernorm-epsilon"},
        .field = &c.model.norm_eps,
        .help = "Added to the variance, or the mean square, before its root",
        .range = between(1e-30, 1),  // not zero in fp32
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.seq_length",
        .flag = "--seq-length",
        .field = &c.model.seq_length,
        .help = "Tokens in a sequence",
        .unit = "tokens",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.vocab_size",
        .flag = "--vocab-size",
        .field = &c.model.vocab_size,
        .help = "Tokens that the model knows; 0: the token source's",
        .unit = "tokens",
        .range = between(0, kLargestSize)},
       {.path = "zeropp.model.tied_head",
        .flag = "--tied-head",
        .field = &c.model.tied_head,
        .help = "Let the head read the token embedding again",
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.recompute_activations",
        .flag = "--recompute-activations",
        .other_flags = {"--checkpoint-activations", "--deepspeed-activation-checkpointing",
                        "--gradient_checkpointing"},
        .field = &c.model.recompute_activations,
        .help =
            "Keep a block's input alone and run its forward again in backward: less memory, the "
            "same bits",
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.recompute_interval",
        .flag = "--recompute-interval",
        .field = &c.model.recompute_interval,
        .help =
            "Recompute one block in every N, the first of them; the others keep their activations",
        .unit = "blocks",
        .range = between(1, kLargestSize),
        .in_effect = [&c, transformer] { return transformer() && c.model.recompute_activations; },
        .effect_needs = "zeropp.model.recompute_activations"},
       {.path = "zeropp.model.cpu_checkpointing",
        .flag = "--cpu-checkpointing",
        .other_flags = {"--checkpoint-in-cpu"},
        .field = &c.model.cpu_checkpointing,
        .help = "Keep the inputs of blocks that recompute, but for two, in page-locked memory of "
                "the host until backward; the bits are the same",
        .in_effect =
            [&c, transformer] {
              return transformer() && model::recomputing_blocks(c.model) > model::kInputSlots;
            },
        .effect_needs = "zeropp.model.recompute_activations in three blocks or more, for the "
                        "device holds the inputs of two"}});
}

void add_data(std::vector<Option>& table, TrainConfig& c) {
  table.insert(
      table.end(),
      {{.path = "zeropp.data.source",
        .flag = "--data-source",
        .field = &c.data.source,
        .help = "Token source, a name from zpp_info"},
       {.path = "zeropp.data.path",
        .flag = "--data-path",
        .field = &c.data.path,
        .help = "File of the source: text, or tokens of llm.c or Megatron-LM; the latter without "
                ".bin and .idx",
        .in_effect = [&c] { return data::reads_file(c.data); },
        .effect_needs = "zeropp.data.source text, llmc or megatron"},
       {.path = "zeropp.data.vocab_size",
        .flag = "--data-vocab-size",
        .field = &c.data.vocab_size,
        .help =
            "Size of the vocabulary that the file of ids was written with; every id is below it",
        .unit = "tokens",
        .range = between(0, kLargestSize),
        .in_effect = [&c] { return data::reads_ids(c.data); },
        .effect_needs = "zeropp.data.source llmc or megatron"},
       {.path = "zeropp.data.held_out_fraction",
        .flag = "--held-out-fraction",
        .field = &c.data.held_out_fraction,
        .help = "Share at the end of the data that is never trained on",
        .range = {
            .minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true}}});
}

}  // namespace zeropp::config
