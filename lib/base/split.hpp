// Parts of a text between separators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeropp {

/// "a,,b" -> a, an empty part, b; an empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace zeropp
