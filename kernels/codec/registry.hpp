// The registered formats with the tables of their back ends: one entry per file of formats/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

/// How a format runs with one set of options.
struct Variant {
  const CodecOps* host = nullptr;
  const CodecOps* cuda = nullptr;  ///< null in a build without CUDA
  std::size_t scale_bytes = 0;     ///< per block; 0: no scales
  bool scales_images = false;      ///< see FormatInfo
  std::size_t unit = 0;            ///< values that its kernels take as a block; 0: a block's
  RuleNumbers numbers;             ///< of a format that works by a rule
  double (*error_bound)(const RuleNumbers&, float x, float absmax) = nullptr;
  double rms_share = 1;        ///< Codec::rms_share()
  double slope_tolerance = 0;  ///< of the options; the larger of this and the format's counts
};

struct FormatEntry {
  FormatInfo info;
  /// `options`: of info.options, without conflicts, in canonical order.
  Variant (*variant)(std::span<const std::string> options) = nullptr;
};

/// Null when no format has this name.
const FormatEntry* find_format(std::string_view name);

/// The CUDA table of a registered format that has kernels of its own; null in a build without CUDA.
const CodecOps* cuda_ops(std::string_view format);

}  // namespace zeropp::codec
