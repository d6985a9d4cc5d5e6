#include "lib/comm/mpi_control.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "lib/base/checked.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

namespace {
int count_of(std::size_t elements) {
  return checked<int>(elements, "the length of a control message");
}
}  // namespace

void MpiControl::use(CommHandle handle) {
  handle_ = std::move(handle);
  check(MPI_Comm_rank(handle_.get(), &rank_));
  check(MPI_Comm_size(handle_.get(), &size_));
}

void MpiControl::barrier() {
  const Waiting waiting(log_, "barrier");
  check(MPI_Barrier(handle_.get()));
}

std::vector<double> MpiControl::all_gather(std::span<const double> part) {
  const Waiting waiting(log_, "all-gather", part.size_bytes());
  return gather_doubles(part);
}

std::vector<double> MpiControl::gather_doubles(std::span<const double> part) {
  std::vector<double> all(part.size() * static_cast<std::size_t>(size_));
  (void)count_of(all.size());
  const int count = count_of(part.size());
  check(
      MPI_Allgather(part.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, handle_.get()));
  return all;
}

void MpiControl::all_reduce_sum(std::span<double> values) {
  const Waiting waiting(log_, "sum", values.size_bytes());
  const auto all = gather_doubles(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (std::size_t at = i; at < all.size(); at += values.size()) values[i] += all[at];
  }
}

void MpiControl::all_reduce_max(std::span<double> values) {
  const Waiting waiting(log_, "maximum", values.size_bytes());
  const auto all = gather_doubles(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t at = i; at < all.size(); at += values.size()) {
      if (std::isnan(all[at]) || all[at] > values[i]) values[i] = all[at];
    }
  }
}

void MpiControl::all_reduce_sum(std::span<std::uint64_t> values) {
  const Waiting waiting(log_, "sum", values.size_bytes());
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), count_of(values.size()), MPI_UINT64_T, MPI_SUM,
                      handle_.get()));
}

std::vector<std::string> MpiControl::gather(const std::string& part) {
  const Waiting waiting(log_, "gather", part.size());
  const int length = count_of(part.size());
  const auto ranks = static_cast<std::size_t>(rank_ == 0 ? size_ : 0);
  std::vector<int> lengths(ranks);
  check(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, handle_.get()));
  std::vector<int> offsets(ranks);
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    offsets[r] = count_of(total);
    total += static_cast<std::size_t>(lengths[r]);
  }
  std::string text(static_cast<std::size_t>(count_of(total)), '\0');
  check(MPI_Gatherv(part.data(), length, MPI_CHAR, text.data(), lengths.data(), offsets.data(),
                    MPI_CHAR, 0, handle_.get()));
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < ranks; ++r) {
    parts.push_back(
        text.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return parts;
}

std::string MpiControl::broadcast(const std::string& from_rank_0) {
  const Waiting waiting(log_, "broadcast", from_rank_0.size());
  int length = count_of(rank_ == 0 ? from_rank_0.size() : 0);
  check(MPI_Bcast(&length, 1, MPI_INT, 0, handle_.get()));
  std::string text = rank_ == 0 ? from_rank_0 : std::string(static_cast<std::size_t>(length), '\0');
  check(MPI_Bcast(text.data(), length, MPI_CHAR, 0, handle_.get()));
  return text;
}

}  // namespace zeropp::comm
