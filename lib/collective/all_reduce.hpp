// All-reduce = reduce-scatter + all-gather: the sum over ranks of everybody's buffer, on every
// rank. Composed from two planned algorithms; runs and bytes are counted in their rows. One run in
// flight; may run in place (`full` and `out` the same memory), since everything is read before
// anything is written.
#pragma once

#include <memory>
#include <span>

#include "lib/collective/collective.hpp"

namespace zeropp::collective {

class AllReduce {
 public:
  /// `reduce_scatter` and `all_gather` are planned on the same group with `count` elements per
  /// part; the gather takes fp32, the dtype of the sums.
  AllReduce(std::unique_ptr<ReduceScatter> reduce_scatter, std::unique_ptr<AllGather> all_gather,
            std::size_t count);

  /// Starts the all-reduce. `full`: size parts in the dtype that the reduce-scatter was planned
  /// for; `out`: size parts of the gather's result dtype.
  void start(ConstView full, View out, const Run& run);
  void finish(StreamHandle stream);
  [[nodiscard]] std::size_t workspace_bytes() const;
  /// Closed form: bytes that this rank sends in one run.
  [[nodiscard]] comm::Bytes volume() const;

 private:
  [[nodiscard]] std::size_t sum_bytes() const;

  std::unique_ptr<ReduceScatter> reduce_scatter_;
  std::unique_ptr<AllGather> all_gather_;
  std::size_t count_;
  View sum_;
  View out_;
  Run run_;  ///< of both halves: after the sums in the workspace
};

}  // namespace zeropp::collective
