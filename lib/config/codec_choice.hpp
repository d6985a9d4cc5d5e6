// The options that say which codecs there are: of weights and gradients, by step and unit
// (zeropp.codec_schedule), or by what a width would lose (zeropp.adaptive_bits); and what these
// have to keep.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Options of codecs by step and unit, and of adaptive bits: entries of the table of options().
std::vector<Option> codec_choice_options(TrainConfig& config);

/// Bits per weight, to a tenth, that exact differences took at a learning rate, after the first
/// steps of a training.
double exact_bits_at(double learning_rate);

/// Completes and checks both groups of options, of a configuration whose algorithms are chosen.
/// `second_hop`: the reduction can have one; without, every entry's second codec becomes its first.
/// Throws Error(usage) for what would have no effect, and for widths that are none.
void resolve_codec_choice(TrainConfig& config, bool second_hop);

}  // namespace zeropp::config
