// Arrays for the tests of the network's operations: reproducible random inputs, outputs poisoned
// with NaN, and comparison with a reference in fp64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Standard normals; another `stream`, other values.
inline Floats normals(std::size_t count, std::uint64_t stream, float scale = 1.0F) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * standard_normal(99, stream, i);
  return values;
}

inline Floats poisoned(std::size_t count) {
  return Floats(count, std::numeric_limits<float>::quiet_NaN());
}

inline std::vector<std::int32_t> tokens(std::size_t count, std::size_t vocab,
                                        std::uint64_t stream) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int32_t>(philox4x32(98, i, stream).word[0] % vocab);
  }
  return values;
}

inline View view(Floats& values) { return View::of(values.data(), values.size()); }
inline ConstView view(const Floats& values) { return ConstView::of(values.data(), values.size()); }

/// Bytes of `values` as they lie in memory of `dtype`.
inline std::vector<std::byte> stored(const Floats& values, Dtype dtype) {
  std::vector<std::byte> memory(values.size() * size_of(dtype));
  with_type(dtype, [&]<class T>(T*) {
    std::transform(values.begin(), values.end(), reinterpret_cast<T*>(memory.data()),
                   saturating_cast<T>);
  });
  return memory;
}

/// Values in memory of `dtype`.
inline Floats loaded(const std::vector<std::byte>& memory, Dtype dtype) {
  Floats values(memory.size() / size_of(dtype));
  with_type(dtype, [&]<class T>(T*) {
    std::transform(reinterpret_cast<const T*>(memory.data()),
                   reinterpret_cast<const T*>(memory.data()) + values.size(), values.begin(),
                   [](T value) { return to_float(value); });
  });
  return values;
}

/// Weights in memory of a dtype, and their exact values.
struct Weights {
  Weights(std::size_t count, std::uint64_t stream, Dtype type)
      : bytes(stored(normals(count, stream), type)), wide(loaded(bytes, type)), dtype(type) {}
  [[nodiscard]] ConstView memory() const { return {bytes.data(), wide.size(), dtype}; }
  /// View to write to; `wide` keeps what was there.
  [[nodiscard]] View view() { return {bytes.data(), wide.size(), dtype}; }
  [[nodiscard]] Floats now() const { return loaded(bytes, dtype); }
  std::vector<std::byte> bytes;
  Floats wide;
  Dtype dtype;
};

/// |actual - expected| <= tolerance * (1 + |expected|), element by element; false for NaN.
inline void expect_close(const Floats& actual, const Doubles& expected, double tolerance,
                         const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    ASSERT_TRUE(difference <= tolerance * (1.0 + std::abs(expected[i])))
        << what << '[' << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

/// Says whether both have the same bits, NaN included.
inline void expect_same_bits(const Floats& actual, const Floats& expected,
                             const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(bits_of(actual[i]), bits_of(expected[i]))
        << what << '[' << i << "] is " << actual[i] << ", wanted the bits of " << expected[i];
  }
}

inline double d(float value) { return static_cast<double>(value); }

}  // namespace zeropp::test
