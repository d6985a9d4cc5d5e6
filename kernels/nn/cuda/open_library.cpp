#include "kernels/nn/cuda/open_library.hpp"

#include <dlfcn.h>

namespace zeropp::nn::cuda_ops {

OpenedLibrary open_library(const std::string& name, const std::string& folder) {
  OpenedLibrary opened{dlopen(name.c_str(), RTLD_NOW)};
  if (opened.handle != nullptr) return opened;
  opened.why_not = dlerror();
  if (folder.empty()) return opened;
  opened.handle = dlopen((folder + "/" + name).c_str(), RTLD_NOW);
  if (opened.handle == nullptr) opened.why_not += std::string("; ") + dlerror();
  return opened;
}

}  // namespace zeropp::nn::cuda_ops
