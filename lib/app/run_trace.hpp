// Begin of the trace of every program: where it comes from, what it was asked for, and the ranks
// that it ran on.
#pragma once

#include "lib/app/app.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::app {

/// Trace data of everything that trace::describe_run() writes, but verdict and seed. Collective;
/// the ranks are there on rank 0.
trace::TraceData run_trace(const Context& context, Backend backend, comm::Transport transport);
/// Trace data of a program without ranks: one process on the host, transport "none".
trace::TraceData run_trace(const Call& call);

}  // namespace zeropp::app
