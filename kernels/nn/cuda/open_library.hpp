// Libraries that are opened when they are first needed, so that programs start at once and where
// they are not installed.
#pragma once

#include <string>

namespace zeropp::nn::cuda_ops {

/// The library of this file name, as the loader finds it, or else in `folder` (where it lay at
/// build time; "" for nowhere). Null when it is in neither: dlerror() says why. It stays open until
/// the process ends.
void* open_library(const std::string& name, const std::string& folder);

}  // namespace zeropp::nn::cuda_ops
