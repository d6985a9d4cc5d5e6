// Base of plans of every kind: the communicator, memory of their own, and the count of runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/view.hpp"
#include "lib/c/comm.hpp"
#include "lib/c/plan_request.hpp"
#include "lib/c/zeropp.h"
#include "lib/collective/collective.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::c {

class Plan {
 public:
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Allocates workspace_needed(). Throws Error(environment).
  void allocate();
  /// Registers the workspace, collectively and after allocate(), with communicators that use
  /// registered memory.
  void register_workspace();
  void run(const void* in, void* out, StreamHandle stream);
  /// Forgets the errors of error feedback, where the plan has it.
  virtual void forget_errors(StreamHandle /*stream*/) {}
  [[nodiscard]] zpp_traffic traffic() const;

 protected:
  /// Elements that one run reads and writes.
  struct Sizes {
    std::size_t in = 0;
    std::size_t out = 0;
  };
  /// `comm` outlives the plan.
  Plan(zpp_comm& comm, PlanRequest request, Sizes sizes)
      : comm_(comm), request_(std::move(request)), sizes_(sizes) {}

  [[nodiscard]] virtual std::size_t workspace_needed() const = 0;
  /// Checks that `in` overlaps `out` only where that is allowed; else throws Error(usage). Both
  /// have bytes.
  virtual void check_overlap(const std::byte* in, const std::byte* out) const = 0;
  virtual void execute(ConstView in, View out, StreamHandle stream) = 0;
  /// Closed form: bytes that this rank sends in one run.
  [[nodiscard]] virtual comm::Bytes volume() const = 0;
  [[nodiscard]] virtual std::size_t feedback_bytes() const { return 0; }

  [[nodiscard]] collective::Context context() {
    return {comm_.groups, *comm_.groups.world, recorder_, comm_.device};
  }
  [[nodiscard]] std::size_t ranks() const {
    return static_cast<std::size_t>(comm_.groups.topology.world_size);
  }
  [[nodiscard]] std::size_t in_bytes() const { return sizes_.in * size_of(request_.input); }
  [[nodiscard]] std::size_t out_bytes() const { return sizes_.out * size_of(request_.output); }
  [[nodiscard]] bool overlap(const std::byte* in, const std::byte* out) const {
    return in < out + out_bytes() && out < in + in_bytes();
  }
  /// Number of the run, from 0, and key of its draws: another one in every run, the same on all
  /// ranks. Runs that failed count, since they may have failed on one rank alone.
  [[nodiscard]] std::uint64_t call() const { return calls_ - 1; }
  [[nodiscard]] std::uint64_t key() const;

  zpp_comm& comm_;
  PlanRequest request_;
  Buffer workspace_;

 private:
  Sizes sizes_;
  trace::Recorder recorder_;
  std::vector<std::unique_ptr<comm::RegisteredMemory>> registered_;  ///< of workspace_
  std::uint64_t calls_ = 0;
  std::uint64_t runs_ = 0;  ///< that did not fail
};

}  // namespace zeropp::c

struct zpp_plan {
  std::unique_ptr<zeropp::c::Plan> value;
};
