#include "lib/model/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/model/quadratic.hpp"
#include "lib/model/transformer.hpp"

namespace zeropp::model {

namespace {

struct Entry {
  std::string_view name;
  /// The context's vocabulary is the effective one.
  std::unique_ptr<zero::UnitModel> (*make)(const Options&, const Context&);
  /// The vocabulary of the sizing is the effective one.
  Description (*describe)(const Options&, const Sizing&);
  /// `vocab_size` is the effective one.
  std::vector<LayerFlops> (*layer_flops)(const Options&, std::size_t vocab_size,
                                         std::size_t micro_batch);
};

std::unique_ptr<zero::UnitModel> make_transformer(const Options& options, const Context& context) {
  return std::make_unique<Transformer>(options, context);
}

Description describe_transformer(const Options& options, const Sizing& sizing) {
  return {
      .units = transformer_units(options, sizing.vocab_size),
      .layers = transformer_layers(options),
      .flops_per_token = transformer_flops_per_token(options, sizing.vocab_size),
      .hardware_flops_per_token = transformer_hardware_flops_per_token(options, sizing.vocab_size),
      .memory = transformer_bytes(options, sizing),
      .offloaded_memory = transformer_offloaded_bytes(options, sizing)};
}

std::vector<LayerFlops> transformer_flops(const Options& options, std::size_t vocab_size,
                                          std::size_t /*micro_batch*/) {
  return transformer_layer_flops(options, vocab_size);
}

std::vector<std::size_t> quadratic_sizes(const Options& options) {
  std::vector<std::size_t> sizes(options.num_layers, options.hidden_size);
  return sizes;
}

void require_host(const Context& context) {
  if (context.device.memory != MemoryKind::device) return;
  throw Error(ExitCode::usage, "model quadratic runs on the host only: use the host back end");
}

const Entry kModels[] = {
    {"gpt", make_transformer, describe_transformer, transformer_flops},
    {"llama", make_transformer, describe_transformer, transformer_flops},
    // num_layers units of hidden_size parameters
    {"quadratic",
     [](const Options& options, const Context& context) -> std::unique_ptr<zero::UnitModel> {
       require_host(context);
       return std::make_unique<Quadratic>(quadratic_sizes(options), context.vocab_size,
                                          context.timers);
     },
     [](const Options& options, const Sizing& sizing) -> Description {
       const double tokens = static_cast<double>(sizing.micro_batch * options.seq_length);
       return {
           .units = quadratic_units(quadratic_sizes(options)),
           .layers = quadratic_layers(quadratic_sizes(options)),
           .flops_per_token = quadratic_flops(options.num_layers * options.hidden_size) / tokens,
           .hardware_flops_per_token =
               quadratic_flops(options.num_layers * options.hidden_size) / tokens};
     },
     [](const Options& options, std::size_t, std::size_t micro_batch) {
       const double flops = quadratic_flops(options.hidden_size) /
                            static_cast<double>(micro_batch * options.seq_length);
       return std::vector<LayerFlops>(options.num_layers, {flops, flops});
     }},
};

const Entry& entry(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kModels), std::end(kModels),
                   [&](const Entry& candidate) { return candidate.name == name; });
  if (found != std::end(kModels)) return *found;
  throw Error(ExitCode::usage,
              fmt::format("zeropp.model.name: unknown model '{}': use one of {}; its size is in "
                          "zeropp.model.num_layers, hidden_size and others",
                          name, fmt::join(model_names(), ", ")));
}

/// `Given`: a Context or a Sizing.
template <class Given>
Given with_effective_vocab(const Options& options, const Given& context) {
  Given own = context;
  own.vocab_size = effective_vocab_size(options, context.vocab_size);
  return own;
}

}  // namespace

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const Entry& candidate : kModels) names.push_back(candidate.name);
  return names;
}

void validate(const Options& options) {
  if (!options.parts) (void)entry(options.name);  // throws for an unknown name
  const std::pair<const char*, std::size_t> sizes[] = {
      {"--num-layers", options.num_layers},
      {"--hidden-size", options.hidden_size},
      {"--num-attention-heads", options.num_attention_heads},
      {"--seq-length", options.seq_length}};
  for (const auto& [flag, size] : sizes) {
    if (size == 0) {
      throw Error(ExitCode::usage, fmt::format("{} is 0: give a positive number", flag));
    }
  }
  if (!is_transformer(options)) return;
  if (options.num_attention_heads % kv_heads(options) != 0) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.num_attention_heads {} is not a multiple of "
                            "zeropp.model.num_key_value_heads {}: give a number of key-value heads "
                            "that divides it",
                            options.num_attention_heads, options.num_key_value_heads));
  }
  if (is_llama(options) && head_width(options) % 2 != 0) {
    throw Error(ExitCode::usage,
                fmt::format("heads are {} wide, and rotary positions turn pairs of values: give an "
                            "even --head-dim",
                            head_width(options)));
  }
  if (options.head_dim == 0 && options.hidden_size % options.num_attention_heads != 0) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.hidden_size {} is not a multiple of "
                            "zeropp.model.num_attention_heads {}: give a number of heads that "
                            "divides it, or --head-dim",
                            options.hidden_size, options.num_attention_heads));
  }
}

std::size_t effective_vocab_size(const Options& options, std::size_t source_vocab_size) {
  if (options.vocab_size == 0) return source_vocab_size;
  if (options.vocab_size < source_vocab_size) {
    throw Error(ExitCode::usage,
                fmt::format("--vocab-size {} is smaller than the token source's vocabulary of {}: "
                            "give at least that, or 0 for the source's own",
                            options.vocab_size, source_vocab_size));
  }
  return options.vocab_size;
}

std::vector<LayerFlops> layer_flops(const Options& options, std::size_t source_vocab_size,
                                    std::size_t micro_batch) {
  return entry(options.name)
      .layer_flops(options, effective_vocab_size(options, source_vocab_size), micro_batch);
}

std::unique_ptr<zero::UnitModel> make_model(const Options& options, const Context& context) {
  validate(options);
  return entry(options.name).make(options, with_effective_vocab(options, context));
}

Description describe_model(const Options& options, const Sizing& sizing) {
  validate(options);
  const auto describe = options.parts ? describe_transformer : entry(options.name).describe;
  return describe(options, with_effective_vocab(options, sizing));
}

}  // namespace zeropp::model
