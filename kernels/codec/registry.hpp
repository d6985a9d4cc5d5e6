// The registered formats with the tables of their back ends: one entry per file of formats/.
#pragma once

#include <string_view>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

struct FormatEntry {
  FormatInfo info;
  CodecOps host;
  const CodecOps* cuda = nullptr;  ///< null in a build without CUDA
};

/// Null when no format has this name.
const FormatEntry* find_format(std::string_view name);

/// The CUDA table of a registered format; null in a build without CUDA.
const CodecOps* cuda_ops(std::string_view format);

}  // namespace zeropp::codec
