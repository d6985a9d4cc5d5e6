// ctest: name=app_sum_over_ranks np=1,3 timeout=60 labels=sanitize
// Rows of all ranks become one: sums, maxima, and a refusal where ranks ran different collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/app/sum_over_ranks.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Rows as rank `rank` would have counted them; the last one never ran.
std::deque<trace::CollectiveRow> rows_of(int rank) {
  const auto r = static_cast<std::uint64_t>(rank);
  trace::CollectiveRow gather{.operation = "all_gather",
                              .purpose = "weights",
                              .phase = "forward",
                              .algorithm = "flat",
                              .codec = "int8:256",
                              .group = "world",
                              .path = ""};
  trace::CollectiveRow reduce = gather;
  reduce.operation = "reduce_scatter";
  gather.calls = reduce.calls = 4;
  gather.logical_bytes = 100 + r;
  gather.wire_bytes_intra = 10 * r;
  gather.wire_bytes_inter = 7;
  gather.seconds = 0.5 * (rank + 1);
  trace::CollectiveRow idle = gather;
  idle.phase = "evaluation";
  idle.calls = 0;
  return {gather, reduce, idle};
}

TEST(SumOverRanks, AddsBytesAndTakesTheLargestTime) {
  auto& control = test::world().control();
  const auto n = static_cast<std::uint64_t>(control.size());
  const auto sums = sum_over_ranks(rows_of(control.rank()), control);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].operation, "all_gather");
  EXPECT_EQ(sums[0].calls, 4U);
  EXPECT_EQ(sums[0].logical_bytes, 100 * n + n * (n - 1) / 2);
  EXPECT_EQ(sums[0].wire_bytes_intra, 10 * n * (n - 1) / 2);
  EXPECT_EQ(sums[0].wire_bytes_inter, 7 * n);
  EXPECT_EQ(sums[0].seconds, 0.5 * static_cast<double>(n));
  EXPECT_EQ(sums[1].operation, "reduce_scatter");
  EXPECT_EQ(sums[1].logical_bytes, 0U);
}

TEST(SumOverRanks, RanksThatRanOtherCollectivesAreRefused) {
  auto& control = test::world().control();
  if (control.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const int other = control.size() - 1;
  const auto expect_refusal = [&](const auto& change, const char* part) {
    auto rows = rows_of(control.rank());
    if (control.rank() == other) change(rows);
    try {
      (void)sum_over_ranks(rows, control);
      FAIL() << part;
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), ExitCode::check_failed);
      EXPECT_EQ(error.reporter(), other);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank " + std::to_string(other)), HasSubstr(part),
                                      testing::Not(HasSubstr("\n"))));
    }
  };
  expect_refusal([](auto& rows) { std::swap(rows[0], rows[1]); }, "row 0");
  expect_refusal([](auto& rows) { rows[1].codec = "none"; }, "row 1");
  expect_refusal([](auto& rows) { rows[1].calls = 5; }, "row 1");
  expect_refusal([](auto& rows) { rows.pop_back(); }, "no such row");
  expect_refusal([](auto& rows) { rows.push_back(rows[0]); }, "row 3");
}

}  // namespace
}  // namespace zeropp::app
