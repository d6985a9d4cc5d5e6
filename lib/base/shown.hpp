// Text that somebody else wrote, as it may stand in a message.
#pragma once

#include <string>

namespace zeropp {

/// The text as far as a line has room for it, in whole characters of UTF-8, and how long it is
/// where that is not all; a NUL, which would end the message, as \x00.
std::string shown(const std::string& text);

}  // namespace zeropp
