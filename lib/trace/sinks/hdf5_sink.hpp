// Writes a trace as one HDF5 file (lib/trace/README.md). HDF5 writes it to memory, so that a full
// or failing disk meets plain POSIX writes with clear errors and never HDF5's own recovery; then it
// is written beside its final name, re-opened read-only, compared value by value, and renamed. Runs
// on one rank. Throws Error(io).
#pragma once

#include <filesystem>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// Checks, before the run, that the folder can be made and written, that there is some space, and
/// that what lies under the final name may be replaced (nothing, or an earlier trace of ours).
void preflight_hdf5(const std::filesystem::path& path);

/// Writes the trace, after the run. Replaces an earlier trace of ours; never a foreign file.
void write_hdf5(const Document& document, const std::filesystem::path& path);

/// Re-opens `path` and compares every attribute and column with `document`, bit for bit.
void verify_hdf5(const Document& document, const std::filesystem::path& path);

}  // namespace zeropp::trace
