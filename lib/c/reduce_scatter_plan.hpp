// The plan of a reduce-scatter.
#pragma once

#include "lib/c/plan.hpp"
#include "lib/c/reduction.hpp"

namespace zeropp::c {

class ReduceScatterPlan final : public Plan {
 public:
  /// Throws Error.
  ReduceScatterPlan(zpp_comm& comm, const PlanRequest& request);

  void forget_errors(StreamHandle stream) override { reduction_.forget_errors(stream); }

 protected:
  [[nodiscard]] std::size_t workspace_needed() const override;
  void check_overlap(const std::byte* in, const std::byte* out) const override;
  void execute(ConstView in, View out, StreamHandle stream) override;
  [[nodiscard]] comm::Bytes volume() const override { return reduction_.volume(); }
  [[nodiscard]] std::size_t feedback_bytes() const override { return reduction_.feedback_bytes(); }

 private:
  /// Bytes of the sums that lie in front of the workspace of the reduction, where the output is no
  /// place for sums in fp32.
  [[nodiscard]] std::size_t sum_bytes() const;

  Reduction reduction_;
};

}  // namespace zeropp::c
