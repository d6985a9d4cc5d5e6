// The CUDA runtime's return codes as exceptions, for kernels and above.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <stdexcept>
#include <string>

namespace zeropp::cuda {

/// A call of a CUDA library failed: what, where, and the library's words.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const std::string& what,
                              const std::source_location& where = std::source_location::current()) {
  throw CudaError(what + " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

inline void check(cudaError_t status,
                  const std::source_location& where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  fail(std::string("CUDA: ") + cudaGetErrorString(status) + " [" + cudaGetErrorName(status) + "]",
       where);
}

}  // namespace zeropp::cuda
