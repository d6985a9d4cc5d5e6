// cuBLASLt's functions that matrix products use. The library is opened when a product is first
// asked for: it has 540 MB and 350,000 relocations, which take a seventh of a second of every
// program's start.
#pragma once

#include <cublasLt.h>

namespace zeropp::nn::cuda_ops {

/// Pointers to the functions named cublasLt... .
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) operation_create;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
};

/// The library's functions, for as long as the process lives. Opens the library in the first call;
/// throws CudaError where it is not found, by the loader nor where it lay at build time, or lacks
/// one of them.
const CublasLt& cublaslt();

}  // namespace zeropp::nn::cuda_ops
