// The files that a program leaves, where flags name them: its trace in --output, and the summary of
// --json.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "lib/app/app.hpp"
#include "lib/base/lock_file.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::app {

/// Lock on a run's trace: until it ends, no other run writes the trace. It is kept from before the
/// work until the trace is written. Null on all ranks but 0, and without --output.
using OutputLock = std::unique_ptr<LockFile>;

/// Checks, before the work, that trace and summary can be written, are not the same file, and that
/// no other run is about to write the trace. Collective. Throws AgreedError: with the code usage or
/// io.
[[nodiscard]] OutputLock preflight_outputs(const Context& context);
/// Checks the outputs of a program without ranks. Throws Error(usage) or Error(io).
[[nodiscard]] OutputLock preflight_outputs(const Call& call);

/// Writes the trace where --output asks for it, and the summary where --json does: that of
/// `summary`, or the trace as JSON. One process calls it, the one that has the lock. A folder that
/// was removed since the preflight is made again, with a warning. Throws Error(io).
void write_outputs(const Call& call, const OutputLock& lock, const trace::Document& document,
                   const std::function<nlohmann::json()>& summary = {});

}  // namespace zeropp::app
