// A named range on the time line of NVIDIA's profilers (NVTX), from construction to destruction; it
// costs nothing when no profiler listens.
#pragma once

namespace zeropp {

class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace zeropp
