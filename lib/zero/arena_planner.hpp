// Assigns offsets in one arena to allocations whose order is known: first fit, 256-byte granules.
// Memory is freed by operations; whoever gets it next must wait for them, since streams run apart.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace zeropp::zero {

class ArenaPlanner {
 public:
  /// Offset of `bytes` bytes. Appends to `waits_on` the operations that last used any of them.
  std::size_t allocate(std::size_t bytes, std::vector<std::size_t>& waits_on);
  /// `operations` are the last that use the allocation at `offset`, in no order among themselves.
  void release(std::size_t offset, const std::vector<std::size_t>& operations);
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  struct Freed {
    std::size_t begin;
    std::size_t end;
    std::vector<std::size_t> operations;
  };
  std::map<std::size_t, std::size_t> live_;  ///< offset -> end
  std::vector<Freed> freed_;
  std::size_t peak_ = 0;
};

}  // namespace zeropp::zero
