#include "kernels/nn/cuda/open_library.hpp"

#include <dlfcn.h>

namespace zeropp::nn::cuda_ops {

void* open_library(const std::string& name, const std::string& folder) {
  void* const found = dlopen(name.c_str(), RTLD_NOW);
  if (found != nullptr || folder.empty()) return found;
  return dlopen((folder + "/" + name).c_str(), RTLD_NOW);
}

}  // namespace zeropp::nn::cuda_ops
