// Flags beside keys: refusals name options by their JSON paths, and whoever gave flags knows these.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

/// `message` and behind it "(flags: --bf16, --fp16)", those of the options of `table` whose paths
/// it names, in its order. Flags that it names itself are left out; without any it stays as it is.
std::string with_flags(const std::string& message, const std::vector<Option>& table);

}  // namespace zeropp::config
