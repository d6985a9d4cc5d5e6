// Holds the name of a file that a process is going to write, so that a second one is told before it
// does its work for nothing: an flock(2) on `.NAME.lock` beside it, with the host and the process
// in it. The lock ends with its process, whatever ends that; the file is removed when the lock is
// given up. One that a killed process has left is no lock: the next process takes it. NFS passes
// such locks on to its server. Where a file system knows none, the lock does not work, which is not
// an error.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace zeropp {

class LockFile {
 public:
  /// Line that refuses the lock; `holder` is the process that has it: "process 12 on host".
  using Refusal = std::function<std::string(const std::string& holder)>;

  /// Locks `target`, whose folder exists. Throws Error(io) with the line of `refusal` where another
  /// process has the lock.
  LockFile(const std::filesystem::path& target, Refusal refusal);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// Reason why another process would not be told; empty: it would.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Locks `target` again where the lock's file was removed or moved away, so that another process
  /// may have locked a new one. Throws as the constructor does.
  void renew();

 private:
  void lock();
  /// Takes the lock. False: the opened file has lost its name since. Throws as the constructor
  /// does.
  [[nodiscard]] bool take();

  std::filesystem::path path_;
  Refusal refusal_;
  std::string failure_;
  int descriptor_ = -1;
};

}  // namespace zeropp
