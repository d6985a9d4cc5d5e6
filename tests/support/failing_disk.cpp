// File systems that fail, for programs that this library is preloaded to. FAILING_DISK says how, in
// words separated by spaces; it is of regular files only, so that what programs and launchers tell
// each other is let through:
//   locks=ERRNO          flock(2), and locks of fcntl(2)
//   write=ERRNO:BYTES    writes, after so many bytes of all files together
//   sync=ERRNO           fsync(2), fdatasync(2)
//   sync=slow:SECONDS    they take that long
// ERRNO is a name: ENOLCK, ENOSYS, EACCES, EOPNOTSUPP, ENOSPC, EDQUOT, EIO, EROFS. FAILING_DISK_IN
// names a folder: only files in it fail.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

namespace {

/// The library's function of this name, after this one.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int errno_of(std::string_view name) {
  struct Name {
    std::string_view name;
    int value;
  };
  constexpr std::array<Name, 8> kNames{{{"ENOLCK", ENOLCK},
                                        {"ENOSYS", ENOSYS},
                                        {"EACCES", EACCES},
                                        {"EOPNOTSUPP", EOPNOTSUPP},
                                        {"ENOSPC", ENOSPC},
                                        {"EDQUOT", EDQUOT},
                                        {"EIO", EIO},
                                        {"EROFS", EROFS}}};
  for (const Name& each : kNames) {
    if (each.name == name) return each.value;
  }
  std::abort();
}

/// Value of `key` in FAILING_DISK; empty: this does not fail.
std::string_view asked(std::string_view key) {
  const char* const text = std::getenv("FAILING_DISK");
  std::string_view left = text == nullptr ? "" : text;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    if (word.starts_with(key) && word.substr(key.size()).starts_with('=')) {
      return word.substr(key.size() + 1);
    }
    left.remove_prefix(std::min(word.size() + 1, left.size()));
  }
  return "";
}

/// Whether the file is one that may fail.
bool is_concerned(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return S_ISDIR(status.st_mode);
  const char* const folder = std::getenv("FAILING_DISK_IN");
  if (folder == nullptr) return true;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 &&
         std::string_view(path.data(), static_cast<std::size_t>(length)).starts_with(folder);
}

/// Errno of a lock; 0: it is let through.
int of_lock(int descriptor) {
  const std::string_view name = asked("locks");
  return name.empty() || !is_concerned(descriptor) ? 0 : errno_of(name);
}

/// Errno of a write of `bytes`; 0: it is let through.
int of_write(int descriptor, std::size_t bytes) {
  static std::atomic<std::size_t> written{0};
  const std::string_view value = asked("write");
  if (value.empty() || !is_concerned(descriptor)) return 0;
  const std::size_t colon = value.find(':');
  const std::size_t most = std::strtoull(value.data() + colon + 1, nullptr, 10);
  return written.fetch_add(bytes) + bytes > most ? errno_of(value.substr(0, colon)) : 0;
}

/// Errno of a flush, after its time; 0: it is let through.
int of_sync(int descriptor) {
  const std::string_view value = asked("sync");
  if (value.empty() || !is_concerned(descriptor)) return 0;
  constexpr std::string_view kSlow = "slow:";
  if (!value.starts_with(kSlow)) return errno_of(value);
  const timespec time{std::strtol(value.data() + kSlow.size(), nullptr, 10), 0};
  ::nanosleep(&time, nullptr);
  return 0;
}

template <class Function, class... Arguments>
auto unless(int error, const char* name, Arguments... arguments) {
  using Result = decltype((*next<Function>(name))(arguments...));
  if (error != 0) {
    errno = error;
    return Result{-1};
  }
  return (*next<Function>(name))(arguments...);
}

}  // namespace

extern "C" {

int flock(int descriptor, int operation) noexcept {
  return unless<int(int, int)>(of_lock(descriptor), "flock", descriptor, operation);
}

int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                     command == F_OFD_SETLKW;
  return unless<int(int, int, ...)>(locks ? of_lock(descriptor) : 0, "fcntl", descriptor, command,
                                    argument);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  return unless<ssize_t(int, const void*, size_t)>(of_write(descriptor, bytes), "write", descriptor,
                                                   data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  return unless<ssize_t(int, const void*, size_t, off_t)>(of_write(descriptor, bytes), "pwrite",
                                                          descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  return unless<ssize_t(int, const void*, size_t, off64_t)>(of_write(descriptor, bytes), "pwrite64",
                                                            descriptor, data, bytes, offset);
}

int fsync(int descriptor) { return unless<int(int)>(of_sync(descriptor), "fsync", descriptor); }

int fdatasync(int descriptor) {
  return unless<int(int)>(of_sync(descriptor), "fdatasync", descriptor);
}

}  // extern "C"
