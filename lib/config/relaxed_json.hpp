// JSON as people write configurations by hand, and as DeepSpeed's reader (hjson) takes it: with
// comments and with a comma after the last entry.
#pragma once

#include <string>

namespace zeropp::config {

/// The text with a space in place of each byte of a comment (#, //, /* */) and of each comma before
/// a closing bracket: every other byte, and every line, stays where it is.
std::string without_comments(std::string text);

}  // namespace zeropp::config
