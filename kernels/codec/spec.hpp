// The codec grammar: FORMAT[:BLOCK][+OPTION...], for example "none", "int8:256", "int4:128+had32".
// One parser for the command line, JSON and traces.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp::codec {

/// A parsed name. `block` is 0 for the format's default, and for formats without blocks.
struct CodecSpec {
  std::string format = "none";
  std::size_t block = 0;
  std::vector<std::string> options;  ///< in canonical (sorted) order, each once

  bool operator==(const CodecSpec&) const = default;
};

/// Options that have no meaning together.
struct OptionConflict {
  std::string_view first;
  std::string_view second;
  std::string_view reason;
};

/// Description of a registered format, for parsing, help texts and contract tests.
struct FormatInfo {
  std::string_view name;
  std::string_view summary;
  std::size_t bits = 0;         ///< payload bits per value
  std::size_t scale_bytes = 0;  ///< per block, without options; 0: no scales, no block size
  /// Whether a whole image has a scale of its own too, in 16 more bytes: its chunks, encoded one by
  /// one, would have other bits than the whole.
  bool scales_images = false;
  std::size_t default_block = 1;  ///< 1 for formats without scales
  std::size_t minimum_block = 1;
  std::size_t maximum_block = 1;
  /// By how much the slope of reduced over exact means may differ from 1 on values without
  /// structure, also by a ring of eight ranks, which encodes sums seven times: roundings to few or
  /// to unevenly spaced codes do not average out, nor does clipping.
  double slope_tolerance = 0;
  std::span<const std::string_view> options;  ///< what may follow a '+'
  std::span<const OptionConflict> conflicts;
  /// Largest |x - x'| that is promised for a finite x in a finite block whose largest magnitude is
  /// `absmax`, decoded to fp32, without options; with them see Codec::error_bound().
  double (*error_bound)(float x, float absmax) = nullptr;
};

/// The registered formats in name order: what lies in kernels/codec/formats/.
const std::vector<FormatInfo>& formats();

/// Null when no format has this name.
const FormatInfo* find_info(std::string_view name);

/// Parses and validates `text` against the registry; the block is filled in with the format's
/// default (0 for formats without blocks). Throws std::invalid_argument: what is wrong, the
/// grammar, the nearest known format.
CodecSpec parse_codec(std::string_view text);

/// `spec` as parse_codec() would return it, with the default block and the options in order, for
/// specs that a program puts together: text is parsed where a user wrote it, and nowhere else.
/// Throws std::invalid_argument likewise.
CodecSpec validated(CodecSpec spec);

/// Canonical name, default block written out: parse_codec(to_string(spec)) == spec for every spec
/// that parse_codec returns.
std::string to_string(const CodecSpec& spec);

}  // namespace zeropp::codec
