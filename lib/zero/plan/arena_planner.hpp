// Assigns offsets in one arena to allocations whose order is known: first fit, 256-byte granules.
// Operations free memory; the next user of the memory must wait for them, since streams run apart.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <vector>

namespace zeropp::zero {

class ArenaPlanner {
 public:
  /// Allocations begin at multiples of it.
  static constexpr std::size_t kGranule = 256;

  /// Offset of `bytes` bytes. Appends to `waits_on` the operations that last used any of them.
  std::size_t allocate(std::size_t bytes, std::vector<std::size_t>& waits_on);
  /// `operations` are the last that use the allocation at `offset`, in no order among themselves.
  void release(std::size_t offset, const std::vector<std::size_t>& operations);
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  struct Freed {
    std::size_t end;
    std::vector<std::size_t> operations;
  };
  /// Takes begin to end out of what was freed: its next user waits for all that used it before.
  void take_freed(std::size_t begin, std::size_t end, std::vector<std::size_t>& waits_on);

  /// Offset -> end. Memory that is not live is a hole, and no hole touches another: there are few
  /// holes, however much is live.
  std::map<std::size_t, std::size_t> live_;
  std::map<std::size_t, std::size_t> holes_{{0, std::numeric_limits<std::size_t>::max()}};
  std::map<std::size_t, Freed> freed_;  ///< by offset; apart from each other
  std::size_t peak_ = 0;
};

}  // namespace zeropp::zero
