// The one exception type, with the exit code that a program ends with. Only the app frame catches
// it.
#pragma once

#include <stdexcept>
#include <string>

namespace zeropp {

/// Exit codes of every program (docs/reference/exit-codes.md).
enum class ExitCode : int {
  ok = 0,
  check_failed = 1,   ///< verdict INVALID
  usage = 2,          ///< command line or configuration
  environment = 3,    ///< the machine: no GPU, wrong binding, wrong world size
  undecided = 4,      ///< nothing is wrong so far, but not all was measured
  io = 5,             ///< files
  skipped = 77,       ///< a test that cannot run here
  requeue = 85,       ///< SIGTERM or SIGUSR1, at an agreed step boundary: start me again
  watchdog = 124,     ///< a collective hung
  interrupted = 130,  ///< SIGINT, at a step boundary agreed by all ranks
};

/// Error with a message of one line: what, where, and the remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace zeropp
