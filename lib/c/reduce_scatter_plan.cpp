#include "lib/c/reduce_scatter_plan.hpp"

#include "lib/base/error.hpp"
#include "lib/collective/chunks.hpp"

namespace zeropp::c {

ReduceScatterPlan::ReduceScatterPlan(zpp_comm& comm, const PlanRequest& request)
    : Plan(comm, request,
           {request.count * static_cast<std::size_t>(comm.control.size()), request.count}),
      reduction_(context(), request_, request_.count) {}

std::size_t ReduceScatterPlan::sum_bytes() const {
  collective::WorkspacePlan space;
  if (request_.output != Dtype::fp32) space.reserve(request_.count * sizeof(float));
  return space.bytes();
}

std::size_t ReduceScatterPlan::workspace_needed() const {
  return sum_bytes() + reduction_.workspace_bytes();
}

void ReduceScatterPlan::check_overlap(const std::byte* in, const std::byte* out) const {
  if (!overlap(in, out)) return;
  throw Error(
      ExitCode::usage,
      "zpp_run: out overlaps in, which a reduce-scatter does not change: give other memory");
}

void ReduceScatterPlan::execute(ConstView in, View out, StreamHandle stream) {
  const bool direct = request_.output == Dtype::fp32;
  const View sum = direct ? out : View(workspace_.data(), out.count, Dtype::fp32, out.kind);
  reduction_.run(in, sum, workspace_.span().subspan(sum_bytes()), stream, key(), call());
  if (!direct && out.count > 0) comm_.device.memory_ops->convert(sum, out, stream);
}

}  // namespace zeropp::c
