// The part of the interface that makes communicators and plans, runs and ends them.
#include "lib/c/zeropp.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/status.hpp"
#include "lib/c/all_gather_plan.hpp"
#include "lib/c/all_reduce_plan.hpp"
#include "lib/c/comm.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/c/reduce_scatter_plan.hpp"

using namespace zeropp;
using namespace zeropp::c;

namespace {

std::unique_ptr<Plan> make(zpp_comm& comm, const PlanRequest& request) {
  switch (request.operation) {
    case Operation::all_gather:
      return std::make_unique<AllGatherPlan>(comm, request);
    case Operation::reduce_scatter:
      return std::make_unique<ReduceScatterPlan>(comm, request);
    case Operation::all_reduce:
      break;
  }
  return std::make_unique<AllReducePlan>(comm, request);
}

/// Ranks that planned different things would wait for each other, or add up what does not belong
/// together.
void agree_on_request(const PlanRequest& request, CallbackControl& control) {
  const auto lines = control.all_gather_texts(request.line());
  for (std::size_t r = 0; r < lines.size(); ++r) {
    if (lines[r] == lines.front()) continue;
    throw Error(ExitCode::usage,
                fmt::format("ranks plan different things, rank 0 {}, rank {} {}: make the same "
                            "plans in the same order on all ranks",
                            lines.front(), r, lines[r]));
  }
}

zpp_status plan(Operation operation, zpp_comm* comm, const zpp_plan_options* options,
                zpp_plan** made) {
  if (made != nullptr) *made = nullptr;
  return guarded([&] {
    const char* const function = name_of(operation);
    require_given(comm, function, "comm");
    require_given(options, function, "options");
    require_given(made, function, "plan");
    PlanRequest request;
    auto result = std::make_unique<zpp_plan>();
    comm->control.agree(status_of([&] {
      request = read_request(operation, *options, comm->groups.topology, comm->transport);
      result->value = make(*comm, request);
      result->value->allocate();
    }));
    agree_on_request(request, comm->control);
    result->value->register_workspace();
    *made = result.release();
  });
}

}  // namespace

zpp_status zpp_comm_create(const zpp_comm_options* options, const zpp_callbacks* callbacks,
                           zpp_comm** comm) {
  if (comm != nullptr) *comm = nullptr;
  return guarded([&] {
    const char* const function = "zpp_comm_create";
    require_given(options, function, "options");
    require_given(callbacks, function, "callbacks");
    require_given(comm, function, "comm");
    require_struct_size(options->struct_size, sizeof(zpp_comm_options), function,
                        "zpp_comm_options");
    *comm = std::make_unique<zpp_comm>(*options, *callbacks).release();
  });
}

void zpp_comm_destroy(zpp_comm* comm) { delete comm; }

zpp_status zpp_plan_all_gather(zpp_comm* comm, const zpp_plan_options* options, zpp_plan** made) {
  return plan(Operation::all_gather, comm, options, made);
}

zpp_status zpp_plan_reduce_scatter(zpp_comm* comm, const zpp_plan_options* options,
                                   zpp_plan** made) {
  return plan(Operation::reduce_scatter, comm, options, made);
}

zpp_status zpp_plan_all_reduce(zpp_comm* comm, const zpp_plan_options* options, zpp_plan** made) {
  return plan(Operation::all_reduce, comm, options, made);
}

void zpp_plan_destroy(zpp_plan* made) { delete made; }

zpp_status zpp_run(zpp_plan* made, const void* in, void* out, void* stream) {
  return guarded([&] {
    require_given(made, "zpp_run", "plan");
    made->value->run(in, out, {stream});
  });
}

zpp_status zpp_plan_forget_errors(zpp_plan* made, void* stream) {
  return guarded([&] {
    require_given(made, "zpp_plan_forget_errors", "plan");
    made->value->forget_errors({stream});
  });
}

zpp_status zpp_plan_traffic(const zpp_plan* made, zpp_traffic* traffic) {
  return guarded([&] {
    require_given(made, "zpp_plan_traffic", "plan");
    require_given(traffic, "zpp_plan_traffic", "traffic");
    *traffic = made->value->traffic();
  });
}

zpp_status zpp_all_gather_bytes(zpp_comm* comm, void* parts, size_t bytes, void* stream,
                                uint64_t* sent_inside_nodes, uint64_t* sent_between_nodes) {
  return guarded([&] {
    const char* const function = "zpp_all_gather_bytes";
    require_given(comm, function, "comm");
    require_given(sent_inside_nodes, function, "sent_inside_nodes");
    require_given(sent_between_nodes, function, "sent_between_nodes");
    if (bytes == 0) return;
    require_given(parts, function, "parts");
    comm::Bytes sent;
    comm->groups.world
        ->all_gather_in_place(static_cast<std::byte*>(parts), bytes, bytes, {stream}, sent)
        ->wait({stream});
    *sent_inside_nodes += sent.intra;
    *sent_between_nodes += sent.inter;
  });
}
