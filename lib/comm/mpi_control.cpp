#include "lib/comm/mpi_control.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/status.hpp"
#include "lib/comm/mpi_check.hpp"
#include "lib/comm/pieces.hpp"
#include "lib/comm/rank_order.hpp"

namespace zeropp::comm {

void MpiControl::use(CommHandle handle) {
  handle_ = std::move(handle);
  check(MPI_Comm_rank(handle_.get(), &rank_));
  check(MPI_Comm_size(handle_.get(), &size_));
}

void MpiControl::barrier() {
  const Waiting waiting(log_, "barrier");
  check(MPI_Barrier(handle_.get()));
}

template <class Value>
std::vector<Value> MpiControl::gather_values(std::span<const Value> part, MPI_Datatype type) {
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<Value> all(part.size() * ranks);
  std::vector<Value> piece;
  in_pieces(part.size(), most_of_rank(sizeof(Value)), [&](std::size_t first, int count) {
    const auto length = static_cast<std::size_t>(count);
    piece.resize(length * ranks);
    check(
        MPI_Allgather(part.data() + first, count, type, piece.data(), count, type, handle_.get()));
    for (std::size_t r = 0; r < ranks; ++r) {
      std::copy_n(piece.data() + r * length, length, all.data() + r * part.size() + first);
    }
  });
  return all;
}

std::vector<double> MpiControl::all_gather(std::span<const double> part) {
  const Waiting waiting(log_, "all-gather", part.size_bytes());
  return gather_values(part, MPI_DOUBLE);
}

std::vector<std::uint64_t> MpiControl::all_gather(std::span<const std::uint64_t> part) {
  const Waiting waiting(log_, "all-gather", part.size_bytes());
  return gather_values(part, MPI_UINT64_T);
}

std::size_t MpiControl::most_of_rank(std::size_t element_bytes) const {
  return std::max<std::size_t>(most_bytes_ / (element_bytes * static_cast<std::size_t>(size_)), 1);
}

void MpiControl::make_room(bool several, const std::function<void()>& work) {
  if (several) {
    agree(status_of(work));
  } else {
    work();
  }
}

void MpiControl::all_reduce_sum(std::span<double> values) {
  const Waiting waiting(log_, "sum", values.size_bytes());
  const auto all = gather_values(std::span<const double>(values), MPI_DOUBLE);
  add_in_rank_order(std::span<const double>(all), values);
}

void MpiControl::all_reduce_max(std::span<double> values) {
  const Waiting waiting(log_, "maximum", values.size_bytes());
  const auto all = gather_values(std::span<const double>(values), MPI_DOUBLE);
  take_maxima(all, values);
}

void MpiControl::all_reduce_sum(std::span<std::uint64_t> values) {
  const Waiting waiting(log_, "sum", values.size_bytes());
  in_pieces(values.size(), most_of_rank(sizeof(std::uint64_t)), [&](std::size_t first, int count) {
    check(MPI_Allreduce(MPI_IN_PLACE, values.data() + first, count, MPI_UINT64_T, MPI_SUM,
                        handle_.get()));
  });
}

void MpiControl::gather_piece(const std::string& part, const std::vector<std::uint64_t>& lengths,
                              std::size_t first, std::size_t count,
                              std::vector<std::string>& parts) {
  std::vector<int> counts;
  std::vector<int> offsets;
  int total = 0;
  for (const std::uint64_t length : lengths) {
    offsets.push_back(total);
    counts.push_back(static_cast<int>(std::min(count, length - std::min(first, length))));
    total += counts.back();
  }
  std::string text(static_cast<std::size_t>(rank_ == 0 ? total : 0), '\0');
  const std::size_t begin = std::min(first, part.size());
  check(MPI_Gatherv(part.data() + begin, counts[static_cast<std::size_t>(rank_)], MPI_CHAR,
                    text.data(), counts.data(), offsets.data(), MPI_CHAR, 0, handle_.get()));
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r].append(text, static_cast<std::size_t>(offsets[r]),
                    static_cast<std::size_t>(counts[r]));
  }
}

std::vector<std::string> MpiControl::gather(const std::string& part) {
  const Waiting waiting(log_, "gather", part.size());
  const std::uint64_t length = part.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, handle_.get()));
  const std::uint64_t longest = std::ranges::max(lengths);
  std::vector<std::string> parts(static_cast<std::size_t>(rank_ == 0 ? size_ : 0));
  make_room(longest > most_of_rank(1), [&] {
    for (std::size_t r = 0; r < parts.size(); ++r) parts[r].reserve(lengths[r]);
  });
  in_pieces(longest, most_of_rank(1), [&](std::size_t first, int count) {
    gather_piece(part, lengths, first, static_cast<std::size_t>(count), parts);
  });
  return parts;
}

std::string MpiControl::broadcast(const std::string& from_rank_0) {
  const Waiting waiting(log_, "broadcast", from_rank_0.size());
  std::uint64_t length = from_rank_0.size();
  check(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, handle_.get()));
  std::string text;
  make_room(length > most_bytes_,
            [&] { text = rank_ == 0 ? from_rank_0 : std::string(length, '\0'); });
  in_pieces(length, most_bytes_, [&](std::size_t first, int count) {
    check(MPI_Bcast(text.data() + first, count, MPI_CHAR, 0, handle_.get()));
  });
  return text;
}

}  // namespace zeropp::comm
