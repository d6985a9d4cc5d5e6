// The results for people: lines that begin with #, and a row a kernel; for programs: a JSON object,
// and a trace.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/kernels/options.hpp"
#include "apps/kernels/results.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::kernels {

/// Text of --help on how shares are counted.
inline constexpr const char* kDetails =
    "Kernels run in memory that no cache holds. Each declares the bytes that it must move (every\n"
    "input read once, every output written once) and its operations. `of limit` is the time that\n"
    "they take at the ceiling that binds (copy, read, write, fp32 or bf16, measured in the same\n"
    "run) over the kernel's time. `of copy` is its bytes, read + written, a second, over those of\n"
    "one thread's memcpy, whose bytes count once (host), or of the driver's copy, read + written\n"
    "(CUDA). Every result is checked before it is timed; a wrong one ends in exit code 1.";

/// Widths of the first columns: those of the longest names of the run.
struct Widths {
  explicit Widths(const std::vector<Case>& cases);
  std::size_t kernel, variant, dtype, shape;
};

std::string preamble(const Options& options, const Outcome& outcome, const trace::RankRow& rank);
std::string line_of(const Ceiling& ceiling);
std::string column_names(const Widths& widths, Backend backend);
std::string line_of(const Row& row, const Widths& widths);
std::string footer(const Outcome& outcome);

/// JSON of a run, of schema "zeropp-kernels": `rows` with the samples of each, `ceilings`, `units`,
/// where it comes from. `run`: the trace's head. zpp-validate compare reads two.
nlohmann::json to_json(const Outcome& outcome, const trace::TraceData& run);

/// The head of every trace, /ceilings, /results and /samples (lib/trace/README.md).
trace::Document to_document(const Outcome& outcome, const trace::TraceData& run);

}  // namespace zeropp::kernels
