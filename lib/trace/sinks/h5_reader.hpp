// Reads attributes and columns back from a file that another program may have made: a file that is
// no trace, or larger than any trace, is refused with a reason. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// Whether `path` begins as an HDF5 file does. False where it cannot be read.
bool is_hdf5(const std::filesystem::path& path);

/// Parts of a file that are read. Nothing else of the file is looked at: HDF5 copes best with a
/// damaged file then.
struct Selection {
  struct Columns {
    std::string group;
    std::vector<std::string> names;
  };
  std::vector<std::string> attributes;  ///< of the root
  std::vector<Columns> groups;
};

/// Reads what is there of `wanted`; units and descriptions are left out, and so are attributes that
/// are neither one number nor one text. Throws Error(io) for a file that cannot be read,
/// Error(usage) for one that is no complete trace, for columns that are not lists of numbers or
/// text of equal length, and for one of more than 2^28 bytes.
Document read_hdf5(const std::filesystem::path& path, const Selection& wanted);

}  // namespace zeropp::trace
