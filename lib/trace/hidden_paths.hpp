// Paths of a user's files, hidden from who reads a trace: absolute paths in a text become relative
// to a folder, or "<path>".
#pragma once

#include <filesystem>
#include <string>

namespace zeropp::trace {

/// `text` with every absolute path in it replaced: relative to `folder` where it lies inside, else
/// "<path>", as everywhere where `folder` is the root. A path begins with the text or after a
/// blank, a quote, or one of ":,;=", and reaches to the next quote or one of ":,;". What begins
/// with "//" is part of an address.
std::string hide_paths(const std::string& text, const std::filesystem::path& folder);

}  // namespace zeropp::trace
