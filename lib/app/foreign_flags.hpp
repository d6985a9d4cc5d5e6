// Flags of other programs that train, for which no program here has one.
#pragma once

#include <string>

namespace zeropp::app {

/// Words for the message about an unknown flag: why there is no such flag, and what there is
/// instead. `flag`: without dashes in front, and with a dash for each underscore. Empty where
/// nothing is known of it.
std::string about_foreign_flag(const std::string& flag);

}  // namespace zeropp::app
