// What the trace of every program begins with: where it comes from, what it was asked for, and the
// ranks that it ran on.
#pragma once

#include "lib/app/app.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::app {

/// Everything that trace::describe_run() writes, but verdict and seed. Collective; the ranks are
/// there on rank 0.
trace::TraceData run_trace(const Context& context, Backend backend, comm::Transport transport);
/// Of a program without ranks: one process on the host, transport "none".
trace::TraceData run_trace(const Call& call);

}  // namespace zeropp::app
