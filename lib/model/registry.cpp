#include "lib/model/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/model/encoder.hpp"
#include "lib/model/gpt.hpp"
#include "lib/model/quadratic.hpp"

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

/// Makes a model that needs these arguments alone.
template <class Model>
std::unique_ptr<zero::UnitModel> make(const Options& options, const Context& context) {
  return std::make_unique<Model>(options, context);
}

template <class Model>
Description describe(const Options& options, const Sizing& given) {
  Sizing sizing = given;
  sizing.vocab_size = Model::effective_vocab_size(given.vocab_size);
  const std::size_t vocab = sizing.vocab_size;
  return {.units = transformer_units(options, vocab),
          .layers = transformer_layers(options),
          .flops_per_token = transformer_flops_per_token(options, vocab),
          .hardware_flops_per_token = transformer_hardware_flops_per_token(options, vocab),
          .memory = transformer_bytes(options, sizing, Model::kCausal),
          .offloaded_memory = transformer_offloaded_bytes(options, sizing)};
}

std::vector<std::size_t> quadratic_sizes(const Options& options) {
  std::vector<std::size_t> sizes(options.num_layers, options.hidden_size);
  return sizes;
}

template <class Model>
std::vector<LayerFlops> layer_flops_of(const Options& options, std::size_t vocab_size,
                                       std::size_t) {
  return transformer_layer_flops(options, Model::effective_vocab_size(vocab_size));
}

void require_host(const Context& context) {
  if (context.device.memory != MemoryKind::device) return;
  throw Error(ExitCode::usage, "model quadratic runs on the host only: use the host back end");
}

const Entry kModels[] = {
    {"encoder", make<Encoder>, describe<Encoder>, layer_flops_of<Encoder>},
    {"gpt", make<Gpt>, describe<Gpt>, layer_flops_of<Gpt>},
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
  (void)entry(options.name);  // throws for an unknown name
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
  if (is_transformer(options) && options.hidden_size % options.num_attention_heads != 0) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.hidden_size {} is not a multiple of "
                            "zeropp.model.num_attention_heads {}: give a number of heads that "
                            "divides it",
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
  return entry(options.name).describe(options, with_effective_vocab(options, sizing));
}

}  // namespace zeropp::model
