#include "lib/c/reduction.hpp"

#include "kernels/codec/feedback.hpp"

namespace zeropp::c {

Reduction::Reduction(const collective::Context& context, const PlanRequest& request,
                     std::size_t count)
    : backend_(context.device.backend), scale_(request.scale), reset_period_(request.reset_period) {
  if (request.feedback) feedback_.emplace(*request.feedback, context.device);
  collective::ReduceScatterPlan plan{.parts = collective::Parts::dense(count),
                                     .memory = request.input,
                                     .plain = request.input,
                                     .codec_first = request.codec,
                                     .codec_second = request.codec_between_nodes,
                                     .purpose = "c"};
  if (feedback_) plan.feedback = {.options = *request.feedback, .errors = &*feedback_};
  reduce_ = collective::plan_reduce_scatter(request.algorithm, context, plan);
}

void Reduction::run(ConstView full, View sum, std::span<std::byte> workspace, StreamHandle stream,
                    std::uint64_t key, std::uint64_t call) {
  if (reset_period_ > 0 && call > 0 && call % reset_period_ == 0) forget_errors(stream);
  reduce_->start(full, sum, {workspace, stream, key});
  reduce_->finish(stream);
  if (scale_ != 1.0F && sum.count > 0) codec::feedback_ops(backend_).scale(scale_, sum, stream);
  keep_errors();
}

void Reduction::keep_errors() {
  if (!feedback_) return;
  for (const auto& errors : feedback_->hops()) {
    if (errors) errors->commit();
  }
}

void Reduction::forget_errors(StreamHandle stream) const {
  if (!feedback_) return;
  for (const auto& errors : feedback_->hops()) {
    if (errors) errors->reset(stream);
  }
}

std::size_t Reduction::feedback_bytes() const {
  std::size_t bytes = 0;
  if (!feedback_) return bytes;
  for (const auto& errors : feedback_->hops()) bytes += errors ? errors->bytes() : 0;
  return bytes;
}

}  // namespace zeropp::c
