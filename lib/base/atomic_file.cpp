#include "lib/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"

namespace zeropp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  const char* remedy = "check the path and its permissions, or choose another place";
  if (error == ENOSPC || error == EDQUOT) remedy = "free space there, or choose another place";
  throw Error(ExitCode::io, fmt::format("cannot {} {}: {}; {}", what, path.string(),
                                        std::strerror(error), remedy));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* what)
      : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(what, path, errno);
  }
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (const int error = fault::of_write(); error != 0) fail("write", path_, error);
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  void reserve(std::size_t bytes) {
    if (bytes == 0) return;
    const int status = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
    if (status != 0) fail("reserve space for", path_, status);
  }
  void sync() {
    if (::fsync(descriptor_) != 0) fail("flush", path_, errno);
  }
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("close", path_, errno);
  }

 private:
  const fs::path& path_;
  int descriptor_;
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// A new file beside `final_path`, under a name that no other run has; removed at the end of a
/// scope, unless it was renamed.
class Partial {
 public:
  explicit Partial(const fs::path& final_path)
      : path(folder_of(final_path) / fmt::format(".{}.{}-{:08x}.partial",
                                                 final_path.filename().string(), ::getpid(),
                                                 std::random_device{}())),
        file(path, O_WRONLY | O_CREAT | O_EXCL, "create") {}
  ~Partial() { ::unlink(path.c_str()); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  const fs::path path;
  Descriptor file;
};

/// The file that a rename to `path` may replace: a regular one or none, behind any links.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail("write", path, EISDIR);
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  if (status.type() == fs::file_type::not_found && !link) return path;
  if (status.type() == fs::file_type::none) fail("write", path, error.value());
  if (!fs::is_regular_file(status)) {
    throw Error(ExitCode::io,
                fmt::format("cannot write {}: it is {}, and only a regular file is replaced; "
                            "choose another place",
                            path.string(),
                            fs::exists(status) ? "a device, a pipe or a socket"
                                               : "a link that leads to no file"));
  }
  if (!link) return path;
  fs::path target = fs::canonical(path, error);
  if (error) fail("follow", path, error.value());
  return target;
}

}  // namespace

void write_atomically(const fs::path& path, std::span<const std::byte> bytes,
                      const std::function<void(const fs::path&)>& verify) {
  const fs::path target = target_of(path);
  const fs::path folder = folder_of(target);
  Partial partial(target);
  partial.file.write(bytes);
  partial.file.sync();
  partial.file.close();
  if (verify) verify(partial.path);
  if (::rename(partial.path.c_str(), target.c_str()) != 0) fail("rename to", target, errno);
  Descriptor directory(folder, O_RDONLY | O_DIRECTORY, "open");
  directory.sync();
}

void preflight_write(const fs::path& path, std::size_t bytes) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("create", folder, error.value());
  Partial partial(target_of(path));
  partial.file.reserve(bytes);
  partial.file.close();
}

}  // namespace zeropp
