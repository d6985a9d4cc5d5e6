// Arrays in the memory of a device for tests of its operations: values go up rounded to a dtype and
// come down as fp32. Every call waits.
#pragma once

#include <algorithm>
#include <cstring>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::test {

/// Values that `values` become in memory of `dtype`.
inline Floats rounded(const Floats& values, Dtype dtype) {
  return loaded(stored(values, dtype), dtype);
}

class DeviceArray {
 public:
  /// `values` in `dtype`.
  DeviceArray(const Device& device, const Floats& values, Dtype dtype)
      : device_(device),
        count_(values.size()),
        dtype_(dtype),
        memory_(values.size() * size_of(dtype), device.memory) {
    const std::vector<std::byte> bytes = stored(values, dtype);
    copy({bytes.data(), count_, dtype}, view());
  }

  [[nodiscard]] View view() const { return memory_.view(count_, dtype_); }
  [[nodiscard]] ConstView read() const { return view(); }

  [[nodiscard]] Floats download() const {
    std::vector<std::byte> bytes(memory_.bytes());
    copy(view(), {bytes.data(), count_, dtype_});
    return loaded(bytes, dtype_);
  }

 private:
  void copy(ConstView from, View to) const {
    device_.memory_ops->copy(from, to, {});
    Stream::borrow(*device_.runtime, {}).synchronize();
  }

  const Device& device_;
  std::size_t count_;
  Dtype dtype_;
  Buffer memory_;
};

/// |actual - expected| / |expected| over all elements is at most `tolerance`; says where the
/// largest difference is when it is not.
inline void expect_norm_close(const Floats& actual, const Floats& expected, double tolerance,
                              const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double difference = 0.0;
  double norm = 0.0;
  std::size_t worst = 0;
  double largest = -1.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double gap = std::abs(d(actual[i]) - d(expected[i]));
    difference += gap * gap;
    norm += d(expected[i]) * d(expected[i]);
    if (!(gap <= largest)) {  // a NaN is the largest
      worst = i;
      largest = gap;
      if (std::isnan(gap)) break;
    }
  }
  const double error = std::sqrt(difference) / (norm > 0.0 ? std::sqrt(norm) : 1.0);
  EXPECT_LE(error, tolerance) << what << ": largest difference at [" << worst << "] of "
                              << actual.size() << ", which is " << actual[worst] << ", wanted "
                              << expected[worst];
}

}  // namespace zeropp::test
