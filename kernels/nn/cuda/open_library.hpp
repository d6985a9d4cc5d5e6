// Libraries that are opened when they are first needed, so that programs start at once and where
// they are not installed.
#pragma once

#include <string>

namespace zeropp::nn::cuda_ops {

struct OpenedLibrary {
  void* handle;              ///< of dlopen(), open until the process ends; null where it failed
  std::string why_not = {};  ///< the loader's reasons, of each place that was tried
};

/// Opens the library of this file name as the loader finds it, or else in `folder` (where it lay at
/// build time; "" for nowhere).
OpenedLibrary open_library(const std::string& name, const std::string& folder);

}  // namespace zeropp::nn::cuda_ops
