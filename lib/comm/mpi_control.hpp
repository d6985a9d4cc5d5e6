// The control plane over MPI: small blocking operations. Sums of doubles are added in rank order,
// so they have the same bits on every rank and in every run; a maximum keeps NaN.
#pragma once

#include <mpi.h>

#include "lib/comm/flight_record.hpp"
#include "lib/comm/mpi_handle.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::comm {

class MpiControl final : public Control {
 public:
  explicit MpiControl(CommHandle handle) { use(std::move(handle)); }
  /// From here on, ranks are those of `handle`.
  void use(CommHandle handle);
  [[nodiscard]] MPI_Comm comm() const { return handle_.get(); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void barrier() override;
  void all_reduce_sum(std::span<double> values) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override;
  void all_reduce_max(std::span<double> values) override;
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> part) override;
  [[nodiscard]] std::vector<std::string> gather(const std::string& part) override;
  [[nodiscard]] std::string broadcast(const std::string& from_rank_0) override;

 private:
  [[nodiscard]] std::vector<double> gather_doubles(std::span<const double> part);

  CommHandle handle_;
  GroupLog log_{"control"};
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace zeropp::comm
