// Element types by the names of nccl-tests, which sweeps and what reads them write.
#pragma once

#include <string>

#include "kernels/core/dtype.hpp"

namespace zeropp::config {

/// "float", "half", "bfloat16"
inline std::string type_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp16:
      return "half";
    case Dtype::bf16:
      return "bfloat16";
    case Dtype::fp32:
      break;
  }
  return "float";
}

}  // namespace zeropp::config
