// A trace of zpp_kernels or zpp_sweep as the JSON that calibrate() reads: what their --json has of
// it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace zeropp::plan_app {

/// Reads the trace of the file `path`, HDF5. Throws Error(io) where it cannot be read, Error(usage)
/// for a trace of another program, one that is not complete, or one without the columns.
nlohmann::json read_measured_trace(const std::filesystem::path& path);

}  // namespace zeropp::plan_app
