// What zpp_kernels prints: lines that begin with # for people, and a row a kernel.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/kernels/options.hpp"
#include "apps/kernels/results.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::kernels {

/// The head of --help: how shares are counted.
inline constexpr const char* kSummary =
    "Measures every kernel, in memory that no cache holds, beside what the machine can do at "
    "most.\n"
    "Each kernel declares the bytes that it must move (every input read once, every output written "
    "once) and\nits operations. `of limit`: the time that they take at the ceiling that binds "
    "(copy, read, write, fp32 or\nbf16, measured in the same run) over the kernel's. `of copy`: "
    "its "
    "bytes, read + written, a second, over\nthose of one thread's memcpy, whose bytes count once "
    "(host), or of the driver's copy, read + written (CUDA).\nEvery result is checked before it is "
    "timed; a wrong one ends in exit code 1.";

/// Of the first columns: the longest names of the run.
struct Widths {
  explicit Widths(const std::vector<Case>& cases);
  std::size_t kernel, variant, dtype, shape;
};

std::string preamble(const Options& options, const Outcome& outcome, const trace::RankRow& rank);
std::string line_of(const Ceiling& ceiling);
std::string column_names(const Widths& widths, Backend backend);
std::string line_of(const Row& row, const Widths& widths);
std::string footer(const Outcome& outcome);

}  // namespace zeropp::kernels
