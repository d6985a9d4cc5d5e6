// Names and values in other programs for the options of this one, and the reasons why some of their
// flags have no counterpart: torchrun, DeepSpeed's launcher, Megatron-LM, torchtitan, Hugging Face.
// One table, from which a message tells the name or value to give instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

struct OtherNames {
  /// A flag, "--zero-stage"; or a text on what there is instead of such a flag, or of a value.
  std::string_view here;
  /// Flags without dashes in front and with dashes for underscores; values as "backend=cpu", the
  /// value in lower case.
  std::vector<std::string_view> names;
};

const std::vector<OtherNames>& other_names();

/// Whether other programs call the flag of `option` so.
bool is_called(const Option& option, std::string_view name);

/// Hint for the unknown flag `typed`: the flag of `flags` or `options` whose name, name elsewhere
/// or last part of the key is nearest to it, or the text of the table. "nearest: --lr"; empty where
/// nothing is alike.
std::string hint_for_flag(const std::string& typed, const std::vector<std::string>& flags,
                          const std::vector<Option>& options);

/// Hint for an `option` with the unknown value `text`: " (give host)", " (nearest: cuda)"; empty
/// where nothing is alike.
std::string hint_for_value(const Option& option, const std::string& text);

}  // namespace zeropp::config
