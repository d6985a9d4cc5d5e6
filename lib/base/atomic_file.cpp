#include "lib/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/file.hpp"

namespace zeropp {
namespace {

namespace fs = std::filesystem;

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
  File file;
};

/// The file that a rename to `path` may replace: a regular one or none, behind any links.
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
  partial.file.close();
  if (verify) verify(partial.path);
  if (::rename(partial.path.c_str(), target.c_str()) != 0) fail_io("rename to", target, errno);
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
