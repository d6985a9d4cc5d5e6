// RAII over the serial HDF5 C library, every status checked. HDF5 prints nothing of its own: its
// message becomes part of the Error. One thread.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <string>
#include <utility>

namespace zeropp::trace::h5 {

/// An HDF5 identifier and how it is closed.
class Handle {
 public:
  using Function = herr_t (*)(hid_t);
  Handle(hid_t id, Function function) : id_(id), close_(function) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;

  [[nodiscard]] hid_t id() const { return id_; }
  /// Closes now: negative when that failed, unlike the destructor, which cannot say.
  [[nodiscard]] herr_t close() { return close_(std::exchange(id_, -1)); }

 private:
  hid_t id_;
  Function close_;
};

/// Stops HDF5 from printing. Call before anything that may fail.
void be_quiet();

/// "1.10.8"
std::string library_version();

/// Scalar string type of `size` bytes (at least 1), UTF-8, padded with zeros.
Handle string_type(std::size_t size);

/// Throws Error(io): `what` failed on `where`, and HDF5's own innermost message.
[[noreturn]] void fail(const char* what, const std::string& where);

/// Returns a status, identifier or size that is not negative; else fails.
template <class Status>
Status check(Status status, const char* what, const std::string& where) {
  if (status < 0) fail(what, where);
  return status;
}

/// A file that is open for reading, as a copy in memory: HDF5 itself opens no file, since it would
/// lock it, which file systems without locks refuse (some of NFS and Lustre). Throws Error(io)
/// where the file cannot be read or is no HDF5 file, Error(usage) where it is larger than any
/// trace.
Handle open_to_read(const std::filesystem::path& path);

}  // namespace zeropp::trace::h5
