// Options that others leave without effect, and keys of a file that a program does without.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

/// Sets those that are "auto", in the order of the table.
void choose_automatic(const std::vector<Option>& options);

/// Whether an option was given that others leave without effect.
bool is_without_effect(const Option& option);

/// Throws Error(usage) for an option that was given but is without effect.
void check_effects(const std::vector<Option>& options);

struct Ignored {
  std::string key = {};
  std::string why = {};  ///< half a sentence

  bool operator==(const Ignored&) const = default;
};

/// A key of DeepSpeed's that has no effect in a file has none here: such options become as if the
/// file had left them out. Once everything is read, flags too, whose options stay. Adds the keys to
/// `ignored`, with what they would need; returns a line of each that has one of its own.
std::vector<std::string> leave_out_idle(std::vector<Option>& options,
                                        std::vector<Ignored>& ignored);

/// "ignored: A, B (why); C (why)": keys with one reason stand together, in the order in which the
/// reasons come first. Empty where `keys` is.
std::string ignored_line(const std::vector<Ignored>& keys);

}  // namespace zeropp::config
