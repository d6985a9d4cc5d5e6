#include "lib/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"

namespace zeropp {

void fail_io(const char* what, const std::filesystem::path& path, int error) {
  const char* remedy = "check the path and its permissions, or choose another place";
  if (error == ENOSPC || error == EDQUOT) remedy = "free space there, or choose another place";
  throw Error(ExitCode::io, fmt::format("cannot {} {}: {}; {}", what, path.string(),
                                        std::strerror(error), remedy));
}

namespace {

int open_file(const char* path, int flags) {
  if ((flags & O_CREAT) != 0) {
    if (const int error = fault::of_disk(fault::DiskCall::name); error != 0) {
      errno = error;
      return -1;
    }
  }
  return ::open(path, flags, 0644);
}

}  // namespace

// The file is opened without blocking: a pipe that nobody writes to is opened at once, and found to
// be empty.
File::File(std::filesystem::path path, int flags, const char* what)
    : path_(std::move(path)),
      descriptor_(open_file(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail_io(what, path_, errno);
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (const int error = fault::of_disk(fault::DiskCall::write); error != 0) {
      fail_io("write", path_, error);
    }
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void File::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io("write", path_, errno);
    position += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void File::read(std::uint64_t position, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io("read", path_, errno);
    if (count == 0) {
      throw Error(ExitCode::io, fmt::format("cannot read {}: it ends at byte {}, {} more were "
                                            "expected; it was cut short, use another copy",
                                            path_.string(), position, bytes.size()));
    }
    position += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_io("look at", path_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void File::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  const int status = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (status != 0) fail_io("reserve space for", path_, status);
}

void File::sync() {
  if (const int error = fault::of_disk(fault::DiskCall::flush); error != 0) {
    fail_io("flush", path_, error);
  }
  if (::fsync(descriptor_) != 0) fail_io("flush", path_, errno);
}

void File::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_io("close", path_, errno);
}

void sync_folder(const std::filesystem::path& folder) {
  File directory(folder, O_RDONLY | O_DIRECTORY, "open");
  directory.sync();
}

}  // namespace zeropp
