// ctest: name=comm_control np=1,3,6 timeout=60 labels=sanitize
// The control plane where a message is longer than one call of MPI takes: with a limit of a few
// bytes, every length around it, alike on all ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <numeric>
#include <string>

#include "lib/comm/mpi_check.hpp"
#include "lib/comm/mpi_control.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::comm {
namespace {

/// A control of all ranks that sends `most_bytes` in one call.
std::unique_ptr<MpiControl> control_of(std::size_t most_bytes) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  return std::make_unique<MpiControl>(CommHandle(copy), most_bytes);
}

constexpr std::size_t kLimits[] = {1, 8, 40, 64};

/// Text that is another one for every rank and length.
std::string text_of(int rank, std::size_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i) {
    text[i] = static_cast<char>(i * 7 + length * 3 + static_cast<std::size_t>(rank) * 31);
  }
  return text;
}

/// Lengths that differ from rank to rank: rank `longest` alone has `length`.
std::size_t length_on(int rank, int longest, std::size_t length) {
  return rank == longest ? length : length / (static_cast<std::size_t>(rank) + 2);
}

TEST(LongControl, PartsOfAllLengthsAreGathered) {
  for (const std::size_t limit : kLimits) {
    const auto control = control_of(limit);
    for (std::size_t length = 0; length < 70; length += 3) {
      for (const int longest : {0, control->size() - 1}) {
        const int rank = control->rank();
        const auto parts = control->gather(text_of(rank, length_on(rank, longest, length)));
        ASSERT_EQ(parts.size(), rank == 0 ? static_cast<std::size_t>(control->size()) : 0U);
        for (int r = 0; r < static_cast<int>(parts.size()); ++r) {
          EXPECT_EQ(parts[static_cast<std::size_t>(r)], text_of(r, length_on(r, longest, length)))
              << "of rank " << r << ", " << limit << " bytes a call";
        }
      }
    }
  }
}

TEST(LongControl, TextsOfAllLengthsAreBroadcast) {
  for (const std::size_t limit : kLimits) {
    const auto control = control_of(limit);
    for (std::size_t length = 0; length < 70; ++length) {
      EXPECT_EQ(control->broadcast(text_of(control->rank(), length)), text_of(0, length));
    }
  }
}

TEST(LongControl, NumbersAreGatheredAndAdded) {
  for (const std::size_t limit : kLimits) {
    const auto control = control_of(limit);
    const auto ranks = static_cast<std::size_t>(control->size());
    for (std::size_t length = 0; length < 20; ++length) {
      std::vector<double> part(length);
      std::iota(part.begin(), part.end(), 100.0 * control->rank());
      std::vector<std::uint64_t> counts(part.begin(), part.end());
      const std::vector<double> all = control->all_gather(part);
      ASSERT_EQ(all.size(), length * ranks);
      const std::vector<std::uint64_t> all_counts =
          control->all_gather(std::span<const std::uint64_t>(counts));
      ASSERT_EQ(all_counts.size(), length * ranks);
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(all_counts[i], static_cast<std::uint64_t>(all[i]));
      std::vector<double> sums = part;
      std::vector<double> maxima = part;
      control->all_reduce_sum(sums);
      control->all_reduce_sum(counts);
      control->all_reduce_max(maxima);
      for (std::size_t i = 0; i < length; ++i) {
        double sum = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
          EXPECT_EQ(all[r * length + i], 100.0 * static_cast<double>(r) + static_cast<double>(i));
          sum += all[r * length + i];
        }
        EXPECT_EQ(sums[i], sum);
        EXPECT_EQ(counts[i], static_cast<std::uint64_t>(sum));
        EXPECT_EQ(maxima[i], all[(ranks - 1) * length + i]);
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::comm
