// An HDF5 file that is built in memory and handed out as bytes once it is closed: through the core
// driver's memory callbacks. (H5Fget_file_image clears a byte under the superblock's checksum, and
// what it gives cannot be opened.)
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lib/trace/sinks/h5.hpp"

namespace zeropp::trace::h5 {

/// Creates a file, lets `fill` write into it, closes it, and returns its bytes. `name` stands for
/// it in messages. Throws Error(io).
std::vector<std::byte> build_image(const std::string& name, const std::function<void(hid_t)>& fill);

}  // namespace zeropp::trace::h5
