// The plan of an all-reduce: a reduce-scatter, the scale, an all-gather. Between them lies what
// collective::AllReduce has no place for: the scale, and counts that ranks do not divide, for which
// the values are laid out with zeros after them.
#pragma once

#include <memory>

#include "lib/c/plan.hpp"
#include "lib/c/reduction.hpp"

namespace zeropp::c {

class AllReducePlan final : public Plan {
 public:
  /// Throws Error.
  AllReducePlan(zpp_comm& comm, const PlanRequest& request);

  void forget_errors(StreamHandle stream) override { reduction_.forget_errors(stream); }

 protected:
  [[nodiscard]] std::size_t workspace_needed() const override { return layout_.bytes; }
  /// Input and output may overlap in any way: everything is read before anything is written.
  void check_overlap(const std::byte* /*in*/, const std::byte* /*out*/) const override {}
  void execute(ConstView in, View out, StreamHandle stream) override;
  [[nodiscard]] comm::Bytes volume() const override;
  [[nodiscard]] std::size_t feedback_bytes() const override { return reduction_.feedback_bytes(); }

 private:
  /// Offsets in the workspace, in bytes from its beginning.
  struct Layout {
    std::size_t sum = 0;
    std::size_t padded = 0;  ///< of the input, later of the output
    std::size_t rest = 0;    ///< of the collectives
    std::size_t bytes = 0;
  };
  [[nodiscard]] Layout lay_out() const;
  [[nodiscard]] std::size_t whole() const { return part_ * ranks(); }
  [[nodiscard]] bool is_padded() const { return whole() != request_.count; }
  [[nodiscard]] View padded(Dtype dtype) const;
  [[nodiscard]] ConstView with_zeros(ConstView in, StreamHandle stream) const;

  std::size_t part_;  ///< elements of a rank's part
  Reduction reduction_;
  std::unique_ptr<collective::AllGather> gather_;
  Layout layout_;
};

}  // namespace zeropp::c
