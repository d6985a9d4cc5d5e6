#include "lib/base/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/host.hpp"

namespace zeropp {

namespace {

namespace fs = std::filesystem;

constexpr int kTries = 100;  // others may remove the file between its opening and its lock

/// Text that the holder has written, which may not have come yet.
std::string holder_in(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length))
                    : "another process";
}

/// Whether the open file is the one that has the name: its holder may have removed it in between.
bool has_name(int descriptor, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

bool is_regular(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

LockFile::LockFile(const fs::path& target, Refusal refusal)
    : path_(target.parent_path() / fmt::format(".{}.lock", target.filename().string())),
      refusal_(std::move(refusal)) {
  lock();
}

void LockFile::renew() {
  if (descriptor_ < 0 || has_name(descriptor_, path_)) return;
  ::close(std::exchange(descriptor_, -1));
  lock();
}

void LockFile::lock() {
  for (int tries = 0; !take(); ++tries) {
    if (tries < kTries) continue;
    failure_ = "its name is that of another file each time";
    return;
  }
}

bool LockFile::take() {
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) {
    failure_ = std::strerror(errno);
    return true;
  }
  if (!is_regular(descriptor_)) {
    ::close(std::exchange(descriptor_, -1));
    failure_ = "its name is that of no regular file";
    return true;
  }
  const int error = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == 0 && has_name(descriptor_, path_)) {
    const std::string own = fmt::format("process {} on {}", ::getpid(), host_name());
    // The process writes its name only for messages: without it the lock is the same.
    if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, own.data(), own.size(), 0);
    return true;
  }
  const std::string holder = error == EWOULDBLOCK ? holder_in(descriptor_) : "";
  ::close(std::exchange(descriptor_, -1));
  if (error == EWOULDBLOCK) {
    throw Error(ExitCode::io, refusal_(holder));
  }
  if (error != 0) failure_ = std::strerror(error);
  return error != 0;
}

LockFile::~LockFile() {
  if (descriptor_ < 0) return;
  // The file is removed before the lock ends: nobody else can have it yet. Where the folder was
  // moved away, what has the name now is another's.
  if (has_name(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace zeropp
