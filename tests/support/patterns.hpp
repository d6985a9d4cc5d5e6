// Values that any rank can make again for any other: counter-based, so a test's reference needs no
// communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/half.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::test {

/// Element `element` of rank `rank`, rounded to `dtype`.
inline float value_of(Dtype dtype, int rank, std::size_t element) {
  const float value = standard_normal(2023, static_cast<std::uint64_t>(rank), element);
  return with_type(dtype, [&]<class T>(T*) { return to_float(saturating_cast<T>(value)); });
}

/// Stores `value` as element `at` of `view`.
inline void store(View view, std::size_t at, float value) {
  with_type(view.dtype, [&]<class T>(T*) { view.as<T>()[at] = saturating_cast<T>(value); });
}

inline float load(ConstView view, std::size_t at) {
  return with_type(view.dtype, [&]<class T>(T*) { return to_float(view.as<T>()[at]); });
}

/// Owned memory filled with 0xA5, so that what an operation does not write stays recognisable.
struct Poisoned {
  Poisoned(std::size_t count, Dtype dtype)
      : bytes(count * size_of(dtype), std::byte{0xA5}), view(bytes.data(), count, dtype) {}
  std::vector<std::byte> bytes;
  View view;
};

}  // namespace zeropp::test
