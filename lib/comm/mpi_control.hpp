// The control plane over MPI: small blocking operations. Sums of doubles are added in rank order,
// so they have the same bits on every rank and in every run; a maximum keeps NaN. Data longer than
// one call of MPI takes is sent in several calls; missing memory for them is an error that all
// ranks agree on.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/control.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

class MpiControl final : public Control {
 public:
  /// Largest number of bytes of all ranks in one call of MPI.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 28U;

  explicit MpiControl(CommHandle handle, std::size_t most_bytes = kMostBytes)
      : most_bytes_(most_bytes) {
    use(std::move(handle));
  }
  /// Goes over to the ranks of `handle`, from here on.
  void use(CommHandle handle);
  [[nodiscard]] MPI_Comm comm() const { return handle_.get(); }

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

 private:
  template <class Value>
  [[nodiscard]] std::vector<Value> gather_values(std::span<const Value> part, MPI_Datatype type);
  /// Appends the next bytes of each rank's `part` to `parts`: `count` bytes from `first` on, or
  /// what is left there.
  void gather_piece(const std::string& part, const std::vector<std::uint64_t>& lengths,
                    std::size_t first, std::size_t count, std::vector<std::string>& parts);
  /// Elements that every rank may add to one call.
  [[nodiscard]] std::size_t most_of_rank(std::size_t element_bytes) const;
  /// Allocates by `work`; all ranks agree on the outcome where they have `several` calls before
  /// them.
  void make_room(bool several, const std::function<void()>& work);

  CommHandle handle_;
  GroupLog log_{"control"};
  int rank_ = 0;
  int size_ = 1;
  std::size_t most_bytes_;
};

}  // namespace zeropp::comm
