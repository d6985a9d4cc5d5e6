// Base of plans that reduce: a planned reduce-scatter into scaled sums in fp32, with error feedback
// where it was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/c/plan_request.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/error_feedback.hpp"

namespace zeropp::c {

class Reduction {
 public:
  /// Plans a reduction of parts of `count` elements. Throws Error.
  Reduction(const collective::Context& context, const PlanRequest& request, std::size_t count);

  /// Enqueues the reduction. `full`: parts in the planned input dtype; `sum`: `count` elements of
  /// fp32; `call`: number of the run, from 0, the same on all ranks.
  void run(ConstView full, View sum, std::span<std::byte> workspace, StreamHandle stream,
           std::uint64_t key, std::uint64_t call);
  void forget_errors(StreamHandle stream) const;
  [[nodiscard]] std::size_t workspace_bytes() const { return reduce_->workspace_bytes(); }
  [[nodiscard]] comm::Bytes volume() const { return reduce_->volume(); }
  [[nodiscard]] std::size_t feedback_bytes() const;

 private:
  /// Errors of a run are those of the next.
  void keep_errors();

  Backend backend_;
  float scale_;
  std::size_t reset_period_;
  std::optional<collective::ErrorFeedback> feedback_;
  std::unique_ptr<collective::ReduceScatter> reduce_;
};

}  // namespace zeropp::c
