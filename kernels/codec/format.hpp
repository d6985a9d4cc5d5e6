// Interface of a file of formats/: a struct `zeropp::codec::format::<file name>::Format`, of one of
// three kinds. Its functions work on one value or one block and are translated for host and device
// alike; launchers supply the loops, the packing and the memory dtypes. Below: what the build makes
// of a format, and codec.cpp finds by its name.
//
// Every format:
//   name, summary            std::string_view; the name is the file's
//   bits                     payload bits per value, whole: the group of values that is packed at
//                            once has planes of 4, 2 and 1 bits (planes.hpp). Where codes do not
//                            fill whole bits, such as two values in seven, packing (planes.hpp)
//                            and sizes (wire.hpp, FormatInfo in spec.hpp) have to learn it first
//   slope_tolerance          see FormatInfo; where it is absent, 0.001 from 8 bits on, 0.02 below.
//                            contract5_reduced_mean prints what it has to allow
//   options, conflicts       of a format that takes options: what may follow a '+', and what not
//                            together; then with_options(options), as variant() below
// A ruled format works by a rule (rule.hpp), whose kernels it shares with others: no code is made
// for it (derive from IntegerFormat<bits>, or of small floats, also powers of two, from
// ScaledFloatFormat or MicroscalingFormat<exponent bits, mantissa bits, largest code>):
//   default_block, minimum_block, maximum_block
//   variant(options)         -> Variant, below
// The others have kernels of their own, with the width and the block as constants:
//   error_bound(x, scale)    largest |x - x'| that is promised for a finite x in a block with this
//                            stored scale, decoded to fp32
// A scaled format (derive from SymmetricInt for the usual integers), of 4 or 8 bits (packing.hpp;
// other widths are ruled formats):
//   Scale                    type that is stored per block
//   Code                     int8_t (two's complement, sign-extended when unpacked) or uint8_t
//   default_block, minimum_block, maximum_block
//   scale_of(absmax)         stored scale of a block of finite values; a zero scale: all zeros
//   non_finite_scale()       stored scale of a block with NaN or Inf; its payload is zero
//   scale_value(stored)      fp32 factor of decode; NaN for non_finite_scale()
//   reciprocal(stored)       fp32 factor of encode
//   encode(x, reciprocal)    -> Code, of which the low `bits` bits are kept
//   decode(code, scale)      -> fp32, finite where the scale is
//   accumulate(code, scale, acc)  -> acc plus the decoded value
// A cast format (derive from Cast):
//   Wire                     float, Bf16 or Fp16: the values on the wire
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

template <class Format>
concept ScaledFormat = requires(float x, typename Format::Scale stored,
                                typename Format::Code code) {
  { Format::scale_of(x) } -> std::same_as<typename Format::Scale>;
  { Format::non_finite_scale() } -> std::same_as<typename Format::Scale>;
  { Format::scale_value(stored) } -> std::same_as<float>;
  { Format::reciprocal(stored) } -> std::same_as<float>;
  { Format::encode(x, x) } -> std::same_as<typename Format::Code>;
  { Format::decode(code, x) } -> std::same_as<float>;
  { Format::accumulate(code, x, x) } -> std::same_as<float>;
  { Format::error_bound(1.0, 1.0) } -> std::same_as<double>;
};

template <class Format>
concept CastFormat = requires {
  typename Format::Wire;
  { Format::error_bound(1.0, 1.0) } -> std::same_as<double>;
};

template <class Format>
concept RuledFormat = requires {
  Format::variant({});
};

/// No block of any format is larger: host launchers keep one block of fp32 values on the stack, a
/// thread block of CUDA keeps as many in its registers.
inline constexpr std::size_t kLargestBlock = 8192;

/// Kernels and bounds of a format with one set of options.
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

/// A format's entry in the registry: host_format.hpp defines it.
template <class Format>
const FormatEntry& format_entry();

/// The CUDA kernels of a format that has kernels of its own, which cuda/format_kernels.cuh defines;
/// null in a build without CUDA.
template <class Format>
const CodecOps* cuda_format_ops();

/// Null when no format has this name.
const FormatEntry* find_format(std::string_view name);

}  // namespace zeropp::codec
