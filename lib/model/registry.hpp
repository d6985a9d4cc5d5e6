// The models by name: an entry is a line of the table in registry.cpp.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lib/model/context.hpp"
#include "lib/model/description.hpp"
#include "lib/model/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

std::vector<std::string_view> model_names();

/// Throws Error(usage) for an unknown name, a size of 0, or heads of a transformer that do not
/// divide the hidden size.
void validate(const Options& options);

/// The vocabulary that a model gets: options.vocab_size, or the source's when that is 0. Throws
/// Error(usage) when it is smaller than the source's.
std::size_t effective_vocab_size(const Options& options, std::size_t source_vocab_size);

/// Operations of each layer of a model of these, of micro-batches of so many sequences. The options
/// are validated.
std::vector<LayerFlops> layer_flops(const Options& options, std::size_t source_vocab_size,
                                    std::size_t micro_batch);

/// Validates, then makes the model options.name. context.vocab_size is the token source's; the
/// model gets the effective one.
std::unique_ptr<zero::UnitModel> make_model(const Options& options, const Context& context);

}  // namespace zeropp::model
