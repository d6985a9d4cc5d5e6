#include "lib/app/outputs.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "lib/base/atomic_file.hpp"
#include "lib/base/log.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"

namespace zeropp::app {

namespace {

/// Throws Error(usage) when the summary would replace the trace.
void refuse_same_file(const std::filesystem::path& trace, const std::filesystem::path& summary) {
  std::error_code error;  // what cannot be looked up is reported where it is written
  const auto resolved = [&](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  };
  if (const auto file = resolved(trace); error || file != resolved(summary) || error) return;
  throw Error(ExitCode::usage,
              fmt::format("--json {} is the file of the trace: choose another name, or another "
                          "--output",
                          summary.string()));
}

}  // namespace

OutputLock preflight_outputs(const Context& context) {
  OutputLock lock;
  context.agree_on([&] {
    if (context.is_root()) lock = preflight_outputs(static_cast<const Call&>(context));
  });
  return lock;
}

OutputLock preflight_outputs(const Call& call) {
  if (call.json) refuse_same_file(call.trace_path(), *call.json);
  trace::preflight_hdf5(call.trace_path());
  auto lock = std::make_unique<LockFile>(call.trace_path());
  if (!lock->failure().empty()) {
    log::warn(
        fmt::format("no file can be locked beside {} ({}): see to it that no other run has "
                    "this --output",
                    call.trace_path().string(), lock->failure()));
  }
  if (call.json) preflight_write(*call.json, 0);
  return lock;
}

}  // namespace zeropp::app
