// Encoding of what a hop of a collective sends, with error feedback or without. A plan reserves a
// hop's scratch in its workspace and owns the HopEncode; the errors are the caller's
// (error_feedback.hpp). Work is enqueued on the stream of each call.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/draw.hpp"
#include "kernels/codec/feedback.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/error_feedback.hpp"

namespace zeropp::collective {

/// Layout of `length` values in a row that are encoded together, in whole blocks.
codec::Layout padded_layout(std::size_t length, std::size_t block);

/// Path of a plan with these hops as the trace shows it: "composed+feedback:intra,inter",
/// "feedback:intra"; `path` itself where none of them feeds back.
std::string feedback_path(std::string_view path, const std::optional<Feedback>& feedback,
                          std::initializer_list<int> hops);

/// Offsets, in a plan's workspace, of the scratch of a hop with feedback.
struct HopSpace {
  std::size_t scratch = 0;
  std::size_t rows = 0;
};
/// Reserves the scratch of hop `hop` (1 or 2), which sends `parts` parts of `count` values; nothing
/// where `feedback` leaves it out. `largest`: the Layout of most values that are encoded at once.
HopSpace reserve_hop(WorkspacePlan& space, const std::optional<Feedback>& feedback, int hop,
                     std::size_t parts, std::size_t count, const codec::Layout& largest);

/// Encoder of a hop, with feedback or without.
class HopEncode {
 public:
  /// `errors`: null without feedback; with it `space` is the scratch that reserve_hop() gave.
  HopEncode(codec::Codec codec, HopErrors* errors, float beta, const HopSpace& space);

  /// Begins and ends the encode() calls of a run. `workspace`: what the plan reserved from.
  void begin(std::byte* workspace, StreamHandle stream);
  void end(StreamHandle stream);
  /// Encodes `values`. `layout` has strides of whole parts: part p of the values is row p of the
  /// errors; values begin at element `first` of their parts. `values_stride`: elements between
  /// parts.
  void encode(ConstView values, const codec::Layout& layout, std::size_t values_stride,
              std::size_t first, codec::WireImages out, StreamHandle stream,
              const codec::Draw& draw) const;
  [[nodiscard]] bool feeds_back() const { return errors_ != nullptr; }

 private:
  codec::Codec codec_;
  HopErrors* errors_;
  float beta_;
  HopSpace space_;
  std::byte* workspace_ = nullptr;
  codec::Errors open_;
};

}  // namespace zeropp::collective
