// The files that a program leaves: its trace, and the summary of --json.
#pragma once

#include <memory>

#include "lib/app/app.hpp"
#include "lib/base/lock_file.hpp"

namespace zeropp::app {

/// Until it ends, no other run writes this trace: kept from before the work until the trace is
/// written. Null on all ranks but 0.
using HeldOutputs = std::unique_ptr<LockFile>;

/// Before the work: both can be written, are not the same file, and no other run is about to write
/// the trace. Collective. Throws AgreedError: with the code usage or io.
[[nodiscard]] HeldOutputs preflight_outputs(const Context& context);
/// The same of a program without ranks. Throws Error(usage) or Error(io).
[[nodiscard]] HeldOutputs preflight_outputs(const Call& call);

}  // namespace zeropp::app
