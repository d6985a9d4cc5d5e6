#include "lib/app/outputs.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "lib/base/atomic_file.hpp"
#include "lib/base/log.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"

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

/// Makes a folder that is no longer there: the result of a run is worth more than its place.
void make_again(const std::filesystem::path& folder) {
  std::error_code error;  // what cannot be made is reported where it is written
  if (std::filesystem::exists(folder, error) || error) return;
  std::filesystem::create_directories(folder, error);
  log::warn(
      fmt::format("{} was removed or moved during the run: it is made again", folder.string()));
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
  const auto trace = call.trace_path();
  OutputLock lock;
  if (trace) {
    if (call.json) refuse_same_file(*trace, *call.json);
    trace::preflight_hdf5(*trace);
    const std::string path = trace->string();
    lock = std::make_unique<LockFile>(*trace, [path](const std::string& holder) {
      return fmt::format(
          "cannot write {}: {} is about to, whose file would be lost; wait until it "
          "has ended, or choose another place",
          path, holder);
    });
    if (!lock->failure().empty()) {
      log::warn(
          fmt::format("no file can be locked beside {} ({}): see to it that no other run has "
                      "this --output",
                      path, lock->failure()));
    }
  }
  if (call.json) preflight_write(*call.json, 0);
  return lock;
}

void write_outputs(const Call& call, const OutputLock& lock, const trace::Document& document,
                   const std::function<nlohmann::json()>& summary) {
  if (call.json && call.json->has_parent_path()) make_again(call.json->parent_path());
  if (const auto trace = call.trace_path()) {
    make_again(*call.output);
    lock->renew();
    trace::write_hdf5(document, *trace);
  }
  if (call.json) trace::write_json(summary ? summary() : trace::to_json(document), *call.json);
}

}  // namespace zeropp::app
