#include "lib/zero/engine/file_counters.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "lib/base/log.hpp"

namespace zeropp::zero {

FileCounters::FileCounters(std::vector<const AsyncFile*> files, trace::Recorder& recorder)
    : files_(std::move(files)), recorder_(recorder) {
  for (const AsyncFile* file : files_) {
    ++recorder_.counters["files"];
    if (file->has_ring()) ++recorder_.counters["files_io_uring"];
    if (file->is_direct()) ++recorder_.counters["files_direct"];
  }
  if (recorder_.counters.contains("files") && !recorder_.counters.contains("files_io_uring")) {
    log::warn(fmt::format("files are read and written by threads: {}", why_no_ring()));
  }
}

AsyncFileTotals FileCounters::totals() const {
  AsyncFileTotals totals;
  for (const AsyncFile* file : files_) totals += file->totals();
  return totals;
}

void FileCounters::end_step() {
  const AsyncFileTotals after = totals();
  const auto count = [&](const char* name, std::uint64_t value) {
    if (value > 0) recorder_.counters[name] += value;
  };
  count("file_bytes_read", after.bytes_read - before_.bytes_read);
  count("file_bytes_written", after.bytes_written - before_.bytes_written);
  count("file_reads", after.reads - before_.reads);
  count("file_writes", after.writes - before_.writes);
  count("file_wait_ns", static_cast<std::uint64_t>((after.waited - before_.waited) * 1e9));
}

}  // namespace zeropp::zero
