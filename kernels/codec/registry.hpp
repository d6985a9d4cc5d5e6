// The registered formats with the tables of their back ends: one entry per file of formats/.
#pragma once

#include <string_view>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

struct FormatEntry {
  FormatInfo info;
  CodecOps host;
};

/// Null when no format has this name.
const FormatEntry* find_format(std::string_view name);

}  // namespace zeropp::codec
