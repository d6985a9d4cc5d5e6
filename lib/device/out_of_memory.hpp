// Error of a Buffer that finds no memory: who knows the whole run can say more.
#pragma once

#include "kernels/core/view.hpp"
#include "lib/base/error.hpp"

namespace zeropp {

/// Error with exit code `environment`; the message is one line, as of any Error.
class OutOfMemory : public Error {
 public:
  OutOfMemory(MemoryKind kind, const std::string& message)
      : Error(ExitCode::environment, message), kind_(kind) {}
  /// Kind of the memory that ran out.
  [[nodiscard]] MemoryKind kind() const { return kind_; }

 private:
  MemoryKind kind_;
};

}  // namespace zeropp
