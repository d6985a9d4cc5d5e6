// The control plane: what ranks tell each other beside the data, and how they agree on a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.hpp"

namespace zeropp::comm {

/// Small host-side traffic of class `control` (norms, losses, agreement): always MPI, blocking,
/// outside the counted data volumes. Every rank calls every function, in the same order.
class Control {
 public:
  virtual ~Control() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void barrier() = 0;
  /// Element-wise over ranks, in place. Doubles are added in rank order: the same bits on every
  /// rank and in every run. A maximum keeps NaN.
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::uint64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;
  /// Every rank's `part`, in rank order (equal lengths).
  [[nodiscard]] virtual std::vector<double> all_gather(std::span<const double> part) = 0;
  [[nodiscard]] virtual std::vector<std::uint64_t> all_gather(
      std::span<const std::uint64_t> part) = 0;
  /// Every rank's bytes on rank 0 (lengths may differ); empty elsewhere.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& part) = 0;
  [[nodiscard]] virtual std::string broadcast(const std::string& from_rank_0) = 0;

  /// Agrees on what each rank found at a boundary. When any rank failed, all throw AgreedError with
  /// the message of the lowest failing rank; otherwise returns.
  void agree(const std::optional<Error>& status);
};

/// Thrown by agree() on every rank; only rank `reporter` prints it.
class AgreedError : public Error {
 public:
  AgreedError(ExitCode code, const std::string& message, int reporter)
      : Error(code, message), reporter_(reporter) {}
  [[nodiscard]] int reporter() const { return reporter_; }

 private:
  int reporter_;
};

}  // namespace zeropp::comm
