// The control plane over zpp_callbacks.all_gather_bytes alone. Sums of doubles are added in rank
// order: the same bits on every rank. Throws CallbackFailure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/c/zeropp.h"
#include "lib/comm/control.hpp"

namespace zeropp::c {

class CallbackControl final : public comm::Control {
 public:
  CallbackControl(const zpp_callbacks& callbacks, int rank, int size)
      : callbacks_(callbacks), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void barrier() override;
  void all_reduce_sum(std::span<double> values) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override;
  void all_reduce_max(std::span<double> values) override;
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> part) override;
  [[nodiscard]] std::vector<std::uint64_t> all_gather(std::span<const std::uint64_t> part) override;
  [[nodiscard]] std::vector<std::string> gather(const std::string& part) override;
  [[nodiscard]] std::string broadcast(const std::string& from_rank_0) override;

  /// Every rank's bytes on every rank, in rank order (lengths may differ).
  [[nodiscard]] std::vector<std::string> all_gather_texts(const std::string& part);

 private:
  template <class Value>
  [[nodiscard]] std::vector<Value> gather_values(std::span<const Value> part);

  const zpp_callbacks& callbacks_;
  int rank_;
  int size_;
};

}  // namespace zeropp::c
