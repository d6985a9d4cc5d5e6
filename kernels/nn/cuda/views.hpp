// Views of the GPU's operations, checked: device memory, the dtype, enough elements.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/core/view.hpp"

namespace zeropp::nn::cuda_ops {

template <class AnyView>
void require(const AnyView& view, std::size_t count, Dtype dtype, const char* what) {
  if (view.kind == MemoryKind::device && view.dtype == dtype && view.count >= count) return;
  throw std::invalid_argument(
      std::string(what) + ": the GPU was given " + std::to_string(view.count) + " elements of " +
      std::string(name_of(view.dtype)) + " in " +
      (view.kind == MemoryKind::device ? "device" : "host") + " memory and needs " +
      std::to_string(count) + " of " + std::string(name_of(dtype)) + " in device memory");
}

/// A gradient of weights: of `dtype`, which is fp32 or that of the weights.
inline void require_gradient(const View& view, std::size_t count, Dtype dtype, Dtype weights,
                             const char* what) {
  require(view, count, dtype == weights ? weights : Dtype::fp32, what);
}

/// The view as at least `count` elements of T.
template <class T, class AnyView>
auto elements(const AnyView& view, std::size_t count, const char* what) {
  require(view, count, detail::dtype_of<T>, what);
  return view.template as<T>();
}

}  // namespace zeropp::nn::cuda_ops
