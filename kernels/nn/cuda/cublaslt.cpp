#include "kernels/nn/cuda/cublaslt.hpp"

#include <dlfcn.h>

#include <string>

#include "kernels/core/cuda/check.hpp"
#include "kernels/nn/cuda/open_library.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

[[noreturn]] void unavailable(const std::string& why) {
  cuda::fail("cuBLASLt cannot be opened: " + why +
             "; add the folder of the CUDA toolkit's libraries to LD_LIBRARY_PATH");
}

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) unavailable(dlerror());
}

CublasLt open() {
  const OpenedLibrary opened = open_library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
                                            ZEROPP_CUBLAS_LIBRARY_FOLDER);
  if (opened.handle == nullptr) unavailable(opened.why_not);
  void* const library = opened.handle;
  CublasLt f{};
  look_up(library, "cublasLtCreate", f.create);
  look_up(library, "cublasLtGetStatusString", f.status_string);
  look_up(library, "cublasLtMatmul", f.matmul);
  look_up(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic);
  look_up(library, "cublasLtMatmulDescCreate", f.operation_create);
  look_up(library, "cublasLtMatmulDescSetAttribute", f.operation_set);
  look_up(library, "cublasLtMatmulDescDestroy", f.operation_destroy);
  look_up(library, "cublasLtMatrixLayoutCreate", f.layout_create);
  look_up(library, "cublasLtMatrixLayoutSetAttribute", f.layout_set);
  look_up(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy);
  look_up(library, "cublasLtMatmulPreferenceCreate", f.preference_create);
  look_up(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  look_up(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy);
  return f;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = open();
  return functions;
}

}  // namespace zeropp::nn::cuda_ops
