// The arrays of a kernel in the memory of a device, as often as it takes to have more of them than
// the caches hold: runs go through the sets in turn, so that every run finds its operands in memory
// only. Before a check all results are poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"

namespace zeropp::kernels {

/// One array of a problem.
struct Array {
  std::string_view name;  ///< for messages
  std::size_t count = 0;
  Dtype dtype = Dtype::fp32;
  /// Writes what lies there in this set before the first run, to host memory of this size; empty:
  /// poison, bytes of ones, which is a NaN in every dtype.
  std::function<void(View, std::size_t set)> fill = {};
  bool shared = false;  ///< one for all sets: scratch, and tables of which a run reads a part
};

/// The arrays of one run, in the order of the problem's list.
class Set {
 public:
  explicit Set(std::vector<View> views) : views_(std::move(views)) {}
  [[nodiscard]] const View& operator[](std::size_t array) const { return views_[array]; }

 private:
  std::vector<View> views_;
};

/// An array that came back from the device.
class Result {
 public:
  Result(Buffer memory, View view, std::string_view name)
      : memory_(std::move(memory)), view_(view), name_(name) {}
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return view_.count; }
  /// Element i as fp32.
  [[nodiscard]] float operator[](std::size_t i) const {
    return with_type(view_.dtype, [&]<class T>(T*) { return to_float(view_.as<T>()[i]); });
  }
  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] const std::byte* bytes() const { return memory_.data(); }

 private:
  Buffer memory_;
  View view_;
  std::string_view name_;
};

class Operands {
 public:
  /// Throws Error(environment) when there is no memory.
  Operands(const std::vector<Array>& arrays, std::size_t sets, const ComputeDevice& device,
           const Stream& stream);

  [[nodiscard]] const std::vector<Set>& sets() const { return sets_; }
  /// Array `array` of the first set, as it is when the stream has come here.
  [[nodiscard]] Result download(std::size_t array) const;

 private:
  void fill(const Array& array, const Buffer& memory, std::size_t stride, std::size_t copies) const;

  const std::vector<Array>& arrays_;
  ComputeDevice device_;
  const Stream& stream_;
  std::vector<Buffer> memory_;
  std::vector<Set> sets_;
};

/// Results that a check sees of the first set.
class Results {
 public:
  explicit Results(const Operands& operands) : operands_(operands) {}
  [[nodiscard]] Result operator[](std::size_t array) const { return operands_.download(array); }

 private:
  const Operands& operands_;
};

}  // namespace zeropp::kernels
