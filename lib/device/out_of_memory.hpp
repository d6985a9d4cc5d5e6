// What a Buffer throws where there is no memory for it: who knows the whole run can say more.
#pragma once

#include "kernels/core/view.hpp"
#include "lib/base/error.hpp"

namespace zeropp {

/// Of exit code `environment`; the message is one line, as of any Error.
class OutOfMemory : public Error {
 public:
  OutOfMemory(MemoryKind kind, const std::string& message)
      : Error(ExitCode::environment, message), kind_(kind) {}
  /// Of the memory that there is no more of.
  [[nodiscard]] MemoryKind kind() const { return kind_; }

 private:
  MemoryKind kind_;
};

}  // namespace zeropp
