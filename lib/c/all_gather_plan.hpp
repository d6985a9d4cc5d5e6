// The plan of an all-gather.
#pragma once

#include <memory>

#include "lib/c/plan.hpp"

namespace zeropp::c {

class AllGatherPlan final : public Plan {
 public:
  /// Throws Error.
  AllGatherPlan(zpp_comm& comm, const PlanRequest& request);

 protected:
  [[nodiscard]] std::size_t workspace_needed() const override { return gather_->workspace_bytes(); }
  void check_overlap(const std::byte* in, const std::byte* out) const override;
  void execute(ConstView in, View out, StreamHandle stream) override;
  [[nodiscard]] comm::Bytes volume() const override { return gather_->volume(); }

 private:
  std::unique_ptr<collective::AllGather> gather_;
};

}  // namespace zeropp::c
