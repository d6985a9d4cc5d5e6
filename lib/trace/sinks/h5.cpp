#include "lib/trace/sinks/h5.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace zeropp::trace::h5 {

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

}  // namespace zeropp::trace::h5
