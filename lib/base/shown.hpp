// Text that somebody else wrote, as it may stand in a message.
#pragma once

#include <string>

namespace zeropp {

/// The text with control characters as \x0a: it begins no line, and moves no terminal.
std::string escaped(const std::string& text);

/// escaped() as far as a line has room for it, in whole characters of UTF-8, and how long the text
/// is where that is not all.
std::string shown(const std::string& text);

}  // namespace zeropp
