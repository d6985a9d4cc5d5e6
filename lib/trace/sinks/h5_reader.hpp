// Reads groups of columns back from a file that somebody else may have made: what is no trace, or
// larger than any trace is, is refused with a reason. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// Whether `path` begins as an HDF5 file does. False where it cannot be read.
bool is_hdf5(const std::filesystem::path& path);

/// The root's attributes, and of `groups` those that are there, with their columns (units and
/// descriptions left out). Numbers and text of any width; attributes of other kinds are left out.
/// Throws Error(io) for a file that cannot be read, Error(usage) for one that is no complete trace,
/// for columns that are not lists of numbers or text of equal length, and for one of more than
/// 2^28 bytes.
Document read_hdf5(const std::filesystem::path& path, const std::vector<std::string>& groups);

}  // namespace zeropp::trace
