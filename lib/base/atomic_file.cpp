#include "lib/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"

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

/// Removes the file at the end of a scope, unless it was renamed.
struct Remover {
  const fs::path& path;
  ~Remover() { ::unlink(path.c_str()); }
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

fs::path partial_path(const fs::path& path) {
  return folder_of(path) / fmt::format(".{}.partial", path.filename().string());
}

void write_atomically(const fs::path& path, std::span<const std::byte> bytes,
                      const std::function<void(const fs::path&)>& verify) {
  const fs::path partial = partial_path(path);
  const fs::path folder = folder_of(path);
  const Remover remover{partial};
  Descriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC, "create");
  file.write(bytes);
  file.sync();
  file.close();
  if (verify) verify(partial);
  if (::rename(partial.c_str(), path.c_str()) != 0) fail("rename to", path, errno);
  Descriptor directory(folder, O_RDONLY | O_DIRECTORY, "open");
  directory.sync();
}

void preflight_write(const fs::path& path, std::size_t bytes) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("create", folder, error.value());
  if (fs::is_directory(path, error)) fail("write", path, EISDIR);
  const fs::path partial = partial_path(path);
  const Remover remover{partial};
  Descriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC, "create");
  file.reserve(bytes);
  file.close();
}

}  // namespace zeropp
