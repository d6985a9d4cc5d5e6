// Error feedback in a hop of a collective: the hop's values are encoded with what earlier encodings
// lost of them. A plan reserves a hop's scratch in its workspace and owns the HopFeedback, where it
// feeds back; the errors are the caller's (error_feedback.hpp). Work is enqueued on the stream of
// each call.
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

class HopFeedback {
 public:
  /// Feedback of a hop that is planned (arguments as of ErrorFeedback::add_hop()); nothing where
  /// `feedback` leaves it out. `space`: what reserve_hop() gave.
  static std::optional<HopFeedback> planned(const std::optional<Feedback>& feedback, int hop,
                                            std::size_t parts, std::size_t count,
                                            const codec::Codec& codec, const HopSpace& space);

  /// Begins and ends the encode() calls of a run. `workspace`: what the plan reserved from.
  void begin(std::byte* workspace, StreamHandle stream);
  void end(StreamHandle stream);
  /// Encodes `values`. `layout` has strides of whole parts: part p of the values is row p of the
  /// errors; values begin at element `first` of their parts. `values_stride`: elements between
  /// parts.
  void encode(ConstView values, const codec::Layout& layout, std::size_t values_stride,
              std::size_t first, codec::WireImages out, StreamHandle stream,
              const codec::Draw& draw) const;

 private:
  HopFeedback(codec::Codec codec, HopErrors& errors, float beta, const HopSpace& space);

  codec::Codec codec_;
  HopErrors* errors_;
  float beta_;
  HopSpace space_;
  std::byte* workspace_ = nullptr;
  codec::Errors open_;
};

}  // namespace zeropp::collective
