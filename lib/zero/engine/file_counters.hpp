// Counts what the files of an engine carry in a step, and how they are read and written, in the
// recorder's counters. Owns nothing: files and recorder outlive it.
#pragma once

#include <vector>

#include "lib/base/async_file.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::zero {

class FileCounters {
 public:
  /// Records how the files are read and written, and warns where that is by threads.
  FileCounters(std::vector<const AsyncFile*> files, trace::Recorder& recorder);

  void begin_step() { before_ = totals(); }
  /// Adds the transfers since begin_step().
  void end_step();

 private:
  [[nodiscard]] AsyncFileTotals totals() const;

  std::vector<const AsyncFile*> files_;
  trace::Recorder& recorder_;
  AsyncFileTotals before_;
};

}  // namespace zeropp::zero
