// Matrix products of the host operations: CBLAS, between the observer's enter and leave.
#pragma once

#include <cblas.h>

#include <cstddef>

#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::host {

/// Enters and leaves the context's observer, if there is one.
class ProductScope {
 public:
  explicit ProductScope(const NnContext& context) : observer_(context.products) {
    if (observer_ != nullptr) observer_->enter();
  }
  ~ProductScope() {
    if (observer_ != nullptr) observer_->leave();
  }
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

 private:
  ProductObserver* observer_;
};

/// A row-major matrix inside a larger one: consecutive rows are `stride` elements apart.
struct Matrix {
  const float* data;
  std::size_t stride;
  bool transposed = false;
};

/// c [m, n] = alpha a [m, k] b [k, n] + beta c
inline void multiply(std::size_t m, std::size_t n, std::size_t k, float alpha, Matrix a, Matrix b,
                     float beta, float* c, std::size_t c_stride) {
  const auto blas = [](std::size_t size) { return static_cast<blasint>(size); };
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, blas(m), blas(n), blas(k), alpha, a.data,
              blas(a.stride), b.data, blas(b.stride), beta, c, blas(c_stride));
}

}  // namespace zeropp::nn::host
