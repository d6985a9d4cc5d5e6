// A format's entry in the registry: its description, and how it runs. host_format.cpp.in makes one
// of each file of formats/.
#pragma once

#include <span>
#include <string>

#include "kernels/codec/format.hpp"
#include "kernels/codec/host_cast.hpp"
#include "kernels/codec/host_kernels.hpp"
#include "kernels/codec/host_scaled.hpp"

namespace zeropp::codec {

/// How a format without options that works by kernels of its own runs.
template <class Format>
Variant own_variant() {
  static const CodecOps host = host_table<HostKernels<Format>>();
  Variant variant;
  variant.host = &host;
  variant.cuda = cuda_format_ops<Format>();
  if constexpr (ScaledFormat<Format>) {
    static_assert(Format::maximum_block <= kLargestBlock);
    variant.scale_bytes = sizeof(typename Format::Scale);
    variant.error_bound = [](const RuleNumbers&, float x, float absmax) {
      return Format::error_bound(x, Format::scale_value(Format::scale_of(absmax)));
    };
  } else {
    variant.error_bound = [](const RuleNumbers&, float x, float) {
      return Format::error_bound(x, 0.0);
    };
  }
  return variant;
}

template <class Format>
Variant variant_of(std::span<const std::string> options) {
  static_assert(ScaledFormat<Format> + CastFormat<Format> + RuledFormat<Format> == 1,
                "see format.hpp for the kinds");
  if constexpr (RuledFormat<Format>) {
    return Format::variant(options);
  } else if constexpr (requires { Format::options; }) {
    return options.empty() ? own_variant<Format>() : Format::with_options(options);
  } else {
    return own_variant<Format>();
  }
}

template <class Format>
FormatInfo describe() {
  FormatInfo info;
  info.name = Format::name;
  info.summary = Format::summary;
  info.bits = Format::bits;
  info.scale_bytes = variant_of<Format>({}).scale_bytes;
  info.scales_images = variant_of<Format>({}).scales_images;
  if constexpr (!CastFormat<Format>) {
    info.default_block = Format::default_block;
    info.minimum_block = Format::minimum_block;
    info.maximum_block = Format::maximum_block;
  }
  info.error_bound = [](float x, float absmax) {
    static const Variant plain = variant_of<Format>({});
    return plain.error_bound(plain.numbers, x, absmax);
  };
  if constexpr (requires { Format::slope_tolerance; }) {
    info.slope_tolerance = Format::slope_tolerance;
  } else {
    info.slope_tolerance = Format::bits >= 8 ? 0.001 : 0.02;
  }
  if constexpr (requires { Format::options; }) {
    info.options = Format::options;
    info.conflicts = Format::conflicts;
  }
  return info;
}

template <class Format>
const FormatEntry& format_entry() {
  static const FormatEntry entry{describe<Format>(), variant_of<Format>};
  return entry;
}

}  // namespace zeropp::codec
