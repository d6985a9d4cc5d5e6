#include "lib/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"
#include "lib/base/file.hpp"

namespace zeropp {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// A name beside `final_path` that no other run has.
fs::path partial_name(const fs::path& final_path) {
  return folder_of(final_path) / fmt::format(".{}.{}-{:08x}.partial",
                                             final_path.filename().string(), ::getpid(),
                                             std::random_device{}());
}

/// Path by which the kernel knows an open file that may have no name.
fs::path descriptor_path(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

/// A new file in `folder` that has no name yet: of a process that is killed nothing is left. -1
/// where the file system knows no such files (NFS), or where /proc, by which they get a name, is
/// not there.
int open_nameless(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
  if (descriptor < 0 || ::access(descriptor_path(descriptor).c_str(), F_OK) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

/// A new file beside `target`, gone at the end of a scope unless it was published.
class Partial {
 public:
  explicit Partial(const fs::path& target) : Partial(target, open_nameless(folder_of(target))) {}
  ~Partial() { ::unlink(name_.c_str()); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  /// Path by which the file can be read.
  [[nodiscard]] fs::path path() const {
    return nameless_ ? descriptor_path(file.descriptor()) : name_;
  }
  /// Gives the file's bytes the name `target`, all at once.
  void publish(const fs::path& target) {
    if (nameless_ && link(target)) return;
    if (nameless_ && !link(name_)) fail_io("create", name_, EEXIST);
    if (::rename(name_.c_str(), target.c_str()) != 0) fail_io("rename to", target, errno);
  }

 private:
  Partial(const fs::path& target, int descriptor)
      : nameless_(descriptor >= 0),
        name_(partial_name(target)),
        file(nameless_ ? File(target, descriptor)
                       : File(name_, O_WRONLY | O_CREAT | O_EXCL, "create")) {}

  /// Gives the nameless file a name; false where the name is taken.
  [[nodiscard]] bool link(const fs::path& name) const {
    if (const int error = fault::of_disk(fault::DiskCall::name); error != 0) {
      fail_io("create", name, error);
    }
    if (::linkat(AT_FDCWD, path().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      return true;
    }
    if (errno != EEXIST) fail_io("create", name, errno);
    return false;
  }

  const bool nameless_;
  const fs::path name_;

 public:
  File file;
};

/// The file that a rename to `path` may replace: a regular one or none, after all links are
/// followed.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail_io("write", path, EISDIR);
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  if (status.type() == fs::file_type::not_found && !link) return path;
  if (status.type() == fs::file_type::none) fail_io("write", path, error.value());
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
  if (error) fail_io("follow", path, error.value());
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
  if (verify) verify(partial.path());
  partial.publish(target);
  partial.file.close();
  sync_folder(folder);
}

void preflight_write(const fs::path& path, std::size_t bytes) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_io("create", folder, error.value());
  Partial partial(target_of(path));
  partial.file.reserve(bytes);
  partial.file.close();
}

}  // namespace zeropp
