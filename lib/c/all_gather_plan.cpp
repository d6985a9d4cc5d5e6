#include "lib/c/all_gather_plan.hpp"

#include "lib/base/error.hpp"

namespace zeropp::c {

AllGatherPlan::AllGatherPlan(zpp_comm& comm, const PlanRequest& request)
    : Plan(comm, request,
           {request.count, request.count * static_cast<std::size_t>(comm.control.size())}),
      gather_(collective::plan_all_gather(request_.algorithm, context(),
                                          {.parts = collective::Parts::dense(request_.count),
                                           .memory = request_.input,
                                           .codec = request_.codec,
                                           .purpose = "c",
                                           .result = request_.output})) {}

void AllGatherPlan::check_overlap(const std::byte* in, const std::byte* out) const {
  const auto rank = static_cast<std::size_t>(comm_.control.rank());
  const bool at_its_place = request_.input == request_.output && in == out + rank * in_bytes();
  if (at_its_place || !overlap(in, out)) return;
  throw Error(ExitCode::usage,
              "zpp_run: in overlaps out beside its own place: give the own part of out, with one "
              "dtype, or other memory");
}

void AllGatherPlan::execute(ConstView in, View out, StreamHandle stream) {
  gather_->start(in, out, {workspace_.span(), stream, key()});
  gather_->finish(stream);
}

}  // namespace zeropp::c
