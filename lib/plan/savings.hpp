// Traffic that ZeRO++ saves in one step, from the number of parameters alone: the call and the
// table of the public overview, from the codecs' own wire sizes.
//
// The counts are the bytes that one rank sends in a step without accumulation, whatever link they
// take. The model is one flat buffer, cut into a part of ceil(N / W) values for each of W ranks; in
// a gather and in a reduce-scatter every rank sends W - 1 images of a part, as rings do. Passes
// says which of them a step has:
//   once    one gather and one reduce-scatter: the overview's, 8 N bytes from fp32
//   zero3   gathers in forward and backward, and one reduce-scatter: what ZeRO-3 does, the 3 M of
//           the paper (arXiv 2306.10209, section 1). With hpZ the second gather stays inside the
//           nodes and is not counted.
// The baseline sends values of one dtype in the same passes. The overview takes fp32, mixed
// precision sends 16 bits: its reduction is twice as large for the same bytes on the wire. Units,
// links, messages and time are the estimator's (lib/plan), not this call's. Pure functions; they
// throw Error (usage) or what codec::Codec throws.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/core/enum_names.hpp"

namespace zeropp::plan {

enum class Passes { once, zero3 };
constexpr auto enum_names(Passes) { return name_table("once", "zero3"); }
/// "once" or "zero3".
Passes parse_passes(std::string_view name);
/// "fp32", "bf16" or "fp16"; the last two count the same.
Dtype parse_baseline(std::string_view name);

/// Codecs of the compressed traffic; the codec `none` sends the baseline's dtype. The defaults are
/// ZeRO++'s. With weight differences a step gathers these once, and no weights: what the first step
/// and refreshes send is not counted.
struct SavingsConfig {
  codec::CodecSpec weights{"int8", 256, {}};
  codec::CodecSpec gradients{"int4", 128, {}};
  bool hpz = false;  ///< with Passes::zero3 only: elsewhere there is no second gather
  bool weight_differences = false;  ///< with Passes::zero3 they need hpz, whose copies they change
  codec::CodecSpec differences{"int4", 128, {}};
  /// Bits per weight that differences without loss are assumed to take, of a 16-bit baseline; 0:
  /// they are sent in the codec. A run takes as many as its weights need.
  double exact_bits = 0;
};

/// GB are 1e9 bytes, sent by one rank in one step.
struct Savings {
  double baseline_gb = 0;
  double zero_plusplus_gb = 0;
  double reduction_factor = 0;  ///< baseline over ZeRO++
  double savings_percent = 0;   ///< of the baseline; negative where ZeRO++ sends more
};

/// `model_params` from 1 to 2^53, `world_size` from 2 to 2^31.
Savings savings(std::size_t model_params, std::size_t world_size, const SavingsConfig& config,
                Dtype baseline, Passes passes);

/// A codec in both passes of Passes::once, a parameter of a large model and of many ranks.
struct WidthRow {
  std::string codec;
  double bytes_per_value = 0;
  double scale_overhead = 0;   ///< bytes of scales over those of codes
  double bytes_per_step = 0;   ///< one gather and one reduce-scatter
  double reduction_fp32 = 0;   ///< over 8 bytes
  double reduction_16bit = 0;  ///< over 4 bytes
};

/// The overview's widths with its block: int8, int6 and int4 in blocks of 64 with 16-bit scales.
std::vector<codec::CodecSpec> overview_codecs();

std::vector<WidthRow> savings_table(std::span<const codec::CodecSpec> codecs);

}  // namespace zeropp::plan
