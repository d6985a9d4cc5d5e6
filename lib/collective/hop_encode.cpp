#include "lib/collective/hop_encode.hpp"

#include <utility>

#include "lib/base/checked.hpp"

namespace zeropp::collective {

codec::Layout padded_layout(std::size_t length, std::size_t block) {
  auto layout = codec::Layout::contiguous(length);
  layout.padded = round_up(length, block);
  return layout;
}

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

HopEncode::HopEncode(codec::Codec codec, HopErrors* errors, float beta, const HopSpace& space)
    : codec_(std::move(codec)), errors_(errors), beta_(beta), space_(space) {}

void HopEncode::begin(std::byte* workspace, StreamHandle stream) {
  if (errors_ == nullptr) return;
  workspace_ = workspace;
  open_ = errors_->open(workspace_ + space_.rows, stream);
}

void HopEncode::end(StreamHandle stream) {
  if (errors_ != nullptr) errors_->close(workspace_ + space_.rows, stream);
}

void HopEncode::encode(ConstView values, const codec::Layout& layout, std::size_t values_stride,
                       std::size_t first, codec::WireImages out, StreamHandle stream,
                       const codec::Draw& draw) const {
  if (errors_ == nullptr) {
    codec_.encode(values, layout, out, stream, draw);
    return;
  }
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
