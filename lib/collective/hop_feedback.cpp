#include "lib/collective/hop_feedback.hpp"

#include <utility>

namespace zeropp::collective {

std::string feedback_path(std::string_view path, const std::optional<Feedback>& feedback,
                          std::initializer_list<int> hops) {
  std::string shown(path);
  const char* before = path.empty() ? "feedback:" : "+feedback:";
  for (const int hop : hops) {
    if (!feedback || !feedback->options.in(hop)) continue;
    shown += std::string(std::exchange(before, ",")) + (hop == 1 ? "intra" : "inter");
  }
  return shown;
}

HopSpace reserve_hop(WorkspacePlan& space, const std::optional<Feedback>& feedback, int hop,
                     std::size_t parts, std::size_t count, const codec::Layout& largest) {
  if (!feedback || !feedback->options.in(hop)) return {};
  const std::size_t scratch = codec::FeedbackEncode::scratch_elements(largest) * sizeof(float);
  const std::size_t rows = error_scratch_bytes(feedback->options.storage, parts, count);
  return {.scratch = space.reserve(scratch), .rows = space.reserve(rows)};
}

HopFeedback::HopFeedback(codec::Codec codec, HopErrors& errors, float beta, const HopSpace& space)
    : codec_(std::move(codec)), errors_(&errors), beta_(beta), space_(space) {}

std::optional<HopFeedback> HopFeedback::planned(const std::optional<Feedback>& feedback, int hop,
                                                std::size_t parts, std::size_t count,
                                                const codec::Codec& codec, const HopSpace& space) {
  if (!feedback) return {};
  HopErrors* const errors = feedback->errors->add_hop(hop, parts, count);
  if (errors == nullptr) return {};
  return HopFeedback(codec, *errors, feedback->options.beta, space);
}

void HopFeedback::begin(std::byte* workspace, StreamHandle stream) {
  workspace_ = workspace;
  open_ = errors_->open(workspace_ + space_.rows, stream);
}

void HopFeedback::end(StreamHandle stream) { errors_->close(workspace_ + space_.rows, stream); }

void HopFeedback::encode(ConstView values, const codec::Layout& layout, std::size_t values_stride,
                         std::size_t first, codec::WireImages out, StreamHandle stream,
                         const codec::Draw& draw) const {
  // The strides of values are multiples of a part's; those of errors the same multiples of a row's.
  codec::Errors errors = open_;
  errors.current += first;
  errors.next += first;
  errors.image_stride = layout.image_stride / values_stride * errors_->stride();
  errors.slice_stride = layout.slice_stride / values_stride * errors_->stride();
  codec::FeedbackEncode(codec_, beta_)
      .run(values, layout, errors, out, reinterpret_cast<float*>(workspace_ + space_.scratch),
           stream, draw);
}

}  // namespace zeropp::collective
