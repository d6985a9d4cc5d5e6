// Views and row reductions of the host operations. Reductions inside a row run over a fixed number
// of lanes that are joined in a fixed order: vector code without fast-math, and the same bits at
// any number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/core/host_for.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::nn::host {

template <class AnyView>
void require(const AnyView& view, std::size_t count, const char* what) {
  if (view.kind == MemoryKind::device || view.count < count) {
    throw std::invalid_argument(std::string(what) + ": the host kernel was given " +
                                std::to_string(view.count) + " elements of " +
                                (view.kind == MemoryKind::device ? "device" : "host") +
                                " memory and needs " + std::to_string(count) + " of host memory");
  }
}

/// The view as at least `count` fp32 values.
template <class AnyView>
auto floats(const AnyView& view, std::size_t count, const char* what) {
  require(view, count, what);
  if (view.dtype != Dtype::fp32) {
    throw std::invalid_argument(std::string(what) + ": the host kernel reads fp32 here, not " +
                                std::string(name_of(view.dtype)));
  }
  return view.template as<float>();
}

/// to[j] = (accumulate ? to[j] : 0) + sum over rows, in order, of term(row, j); j in [0, columns).
/// `to`: fp32 or 16 bits, rounded to nearest when the sum is complete. Work goes to the threads by
/// columns.
template <class Term>
void sum_rows(const char* label, std::size_t rows, std::size_t columns, bool accumulate,
              const View& to, Term term) {
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const out = to.as<T>();
    for_blocks(label, columns, [=](std::size_t begin, std::size_t end) {
      constexpr std::size_t kColumns = 256;  // of sums at a time
      float sums[kColumns];
      for (; begin < end; begin += kColumns) {
        const std::size_t count = std::min(kColumns, end - begin);
        for (std::size_t j = 0; j < count; ++j) sums[j] = accumulate ? to_float(out[begin + j]) : 0;
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t j = 0; j < count; ++j) sums[j] += term(row, begin + j);
        }
        for (std::size_t j = 0; j < count; ++j) out[begin + j] = saturating_cast<T>(sums[j]);
      }
    });
  });
}

inline constexpr std::size_t kLanes = 32;

/// The lanes of one reduction, joined pairwise.
template <class Combine>
float join(float (&lane)[kLanes], Combine combine) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) lane[k] = combine(lane[k], lane[k + width]);
  }
  return lane[0];
}

/// combine over term(j), j in [0, n), from `start` (the neutral element of `combine`).
template <class Term, class Combine>
float reduce(std::size_t n, float start, Term term, Combine combine) {
  float lane[kLanes];
  for (float& value : lane) value = start;
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) lane[k] = combine(lane[k], term(j + k));
  }
  for (std::size_t k = 0; j + k < n; ++k) lane[k] = combine(lane[k], term(j + k));
  return join(lane, combine);
}

template <class Term>
float sum(std::size_t n, Term term) {
  return reduce(n, 0.0F, term, [](float a, float b) { return a + b; });
}

/// The largest of n > 0 values.
inline float largest(const float* values, std::size_t n) {
  return reduce(
      n, values[0], [=](std::size_t j) { return values[j]; },
      [](float a, float b) { return a > b ? a : b; });
}

}  // namespace zeropp::nn::host
