// The contents of a kernel's inputs: close to normal numbers that depend on a seed and a place
// only, so that a check knows every input without a copy of it. They repeat after a prime number of
// elements, which no row of a matrix is a multiple of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/core/view.hpp"

namespace zeropp::kernels {

/// One array of values; a value, cheap to copy.
class Values {
 public:
  /// Element i as fp32, exactly as it lies in memory.
  [[nodiscard]] float operator()(std::size_t i) const;
  /// Writes elements [first, first + memory.count) to host memory of the same dtype.
  void fill(View memory, std::size_t first = 0) const;

 private:
  friend class Source;
  Values(std::shared_ptr<const std::vector<float>> tile, std::size_t offset, Dtype dtype,
         float scale, bool magnitude)
      : tile_(std::move(tile)),
        offset_(offset),
        dtype_(dtype),
        scale_(scale),
        magnitude_(magnitude) {}
  [[nodiscard]] float exact(std::size_t place) const;

  std::shared_ptr<const std::vector<float>> tile_;
  std::size_t offset_;
  Dtype dtype_;
  float scale_;
  bool magnitude_;
};

/// Function that Array::fill takes, with the same values in every set.
inline std::function<void(View, std::size_t)> filled_with(const Values& values) {
  return [values](View memory, std::size_t) { values.fill(memory); };
}

/// Makes arrays.
class Source {
 public:
  explicit Source(std::uint64_t seed);
  /// Random values with standard deviation `scale`, rounded to `dtype`; another `stream`, other
  /// values.
  [[nodiscard]] Values normals(std::size_t stream, Dtype dtype, float scale = 1.0F) const;
  /// Magnitudes of normals() of the same arguments.
  [[nodiscard]] Values magnitudes(std::size_t stream, Dtype dtype, float scale = 1.0F) const;
  /// Token i of a text of random tokens in [0, vocab).
  [[nodiscard]] std::int32_t token(std::size_t i, std::size_t vocab) const;

 private:
  std::uint64_t seed_;
  std::shared_ptr<const std::vector<float>> tile_;
};

}  // namespace zeropp::kernels
