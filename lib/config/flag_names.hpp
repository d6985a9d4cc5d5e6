// Flags beside keys: refusals name options by their JSON paths, and users of flags know the flags.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

/// `message`, followed by "(flags: --bf16, --fp16)": the flags of the options of `table` whose
/// paths the message names, in the order of these paths. Flags that the message names itself are
/// left out; without any flag the message stays as it is.
std::string with_flags(const std::string& message, const std::vector<Option>& table);

}  // namespace zeropp::config
