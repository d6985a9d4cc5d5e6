// The known name that is nearest to a mistyped one: for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeropp {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The entry of `known` with the least distance to `name`, which is one more where their digits
/// differ; the first of equals. Empty when `known` is.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

/// The nearest entry of `known`, where somebody may have meant it: `name` begins it or has
/// the same number, or more than half of the letters are the same. Else empty.
std::string alike(std::string_view name, const std::vector<std::string>& known);

}  // namespace zeropp
