// A file by POSIX calls, every return value checked: owned, not copied. A call that fails throws
// Error(io), which names the call, the path, the system's reason, and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace zeropp {

/// Throws Error(io): "cannot WHAT PATH: reason; remedy".
[[noreturn]] void fail_io(const char* what, const std::filesystem::path& path, int error);

class File {
 public:
  /// open(2) with `flags`, closed on exec; a new file may be read by all and written by the owner,
  /// as far as the umask allows. `what`: the word for a failure, "create", "open".
  File(std::filesystem::path path, int flags, const char* what);
  /// Takes over an open descriptor; `path` is what messages call it.
  File(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Writes at `position`, whatever was written last; the next write() continues after the last
  /// write().
  void write_at(std::uint64_t position, std::span<const std::byte> bytes);
  /// Fills `bytes` from `position` on; a file that ends before is a failure too.
  void read(std::uint64_t position, std::span<std::byte> bytes) const;
  [[nodiscard]] std::uint64_t size() const;
  /// Descriptor of the open file.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Takes room on the disk now.
  void reserve(std::size_t bytes);
  /// Returns when the disk has it.
  void sync();
  /// Some file systems tell of a write that failed only here.
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// Names that were made, renamed or removed in `folder` are on the disk when it returns.
void sync_folder(const std::filesystem::path& folder);

}  // namespace zeropp
