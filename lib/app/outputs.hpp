// The files that a program leaves: its trace, and the summary of --json.
#pragma once

#include "lib/app/app.hpp"

namespace zeropp::app {

/// Before the work: both can be written, and are not the same file. On rank 0; does not
/// communicate: call it in Context::agree_on(). Throws Error(usage) or Error(io).
void preflight_outputs(const Context& context);
/// The same of a program without ranks.
void preflight_outputs(const Call& call);

}  // namespace zeropp::app
