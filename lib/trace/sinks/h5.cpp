#include "lib/trace/sinks/h5.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/file.hpp"

namespace zeropp::trace::h5 {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 32U;

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  const File file(path, O_RDONLY, "open");
  const std::uint64_t size = file.size();
  if (size > kLargestFile) {
    throw Error(ExitCode::usage, fmt::format("{} has {} bytes, more than any trace: name the trace "
                                             "that a program of zeropp wrote",
                                             path.string(), size));
  }
  if (size == 0)
    throw Error(ExitCode::io,
                fmt::format("cannot open {}: it is empty; name a trace", path.string()));
  std::vector<std::byte> bytes(size);
  file.read(0, bytes);
  return bytes;
}

}  // namespace

void be_quiet() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

void fail(const char* what, const std::string& where) {
  std::string reason;
  const auto keep_last = [](unsigned, const H5E_error2_t* error, void* text) -> herr_t {
    *static_cast<std::string*>(text) = error->desc == nullptr ? "" : error->desc;
    return 0;
  };
  // Downward: the last message is the innermost, where it began.
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_last, &reason);
  std::ranges::replace(reason, '\n', ' ');
  throw Error(ExitCode::io, fmt::format("cannot {} {}: HDF5: {}", what, where, reason));
}

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check(H5get_libversion(&major, &minor, &release), "read the version of", "HDF5");
  return fmt::format("{}.{}.{}", major, minor, release);
}

Handle string_type(std::size_t size) {
  Handle type(check(H5Tcopy(H5T_C_S1), "make", "a string type"), H5Tclose);
  check(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "size", "a string type");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad", "a string type");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "set the characters of", "a string type");
  return type;
}

Handle open_to_read(const std::filesystem::path& path) {
  be_quiet();
  const std::string name = path.string();
  std::vector<std::byte> bytes = bytes_of(path);
  const Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "set up", name), H5Pclose);
  check(H5Pset_fapl_core(access.id(), std::size_t{1} << 16U, false), "set up", name);
  check(H5Pset_file_image(access.id(), bytes.data(), bytes.size()), "set up", name);
  // HDF5 knows open files by their names, and refuses one that is there: this never is.
  const std::string image = fmt::format("/proc/self/image-{}", fmt::ptr(bytes.data()));
  return {check(H5Fopen(image.c_str(), H5F_ACC_RDONLY, access.id()), "open", name), H5Fclose};
}

}  // namespace zeropp::trace::h5
