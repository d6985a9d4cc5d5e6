// ctest: name=comm_flight_record timeout=60 labels=sanitize
// The ring of the last operations: what it keeps, and that a reader beside the writer sees whole
// entries only. The test comm_flight_record_tsan is this file under the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "lib/comm/flight_record.hpp"

namespace zeropp::comm {
namespace {

TEST(FlightRecord, KeepsTheLastOperationsInOrder) {
  FlightRecord record;
  EXPECT_FALSE(record.newest());
  EXPECT_TRUE(record.read().empty());
  for (std::uint64_t i = 1; i <= 3 * FlightRecord::kEntries + 5; ++i) {
    EXPECT_EQ(record.begin("exchange", "world", 10 * i, 100 * i), i);
    record.end(i);
    const auto kept = record.read();
    ASSERT_EQ(kept.size(), std::min<std::uint64_t>(i, FlightRecord::kEntries));
    for (std::size_t at = 0; at < kept.size(); ++at) {
      const std::uint64_t number = i - kept.size() + 1 + at;
      EXPECT_EQ(kept[at].number, number);
      EXPECT_EQ(kept[at].sequence, 10 * number);
      EXPECT_EQ(kept[at].bytes, 100 * number);
      EXPECT_EQ(kept[at].state, OperationState::done);
    }
  }
}

TEST(FlightRecord, KnowsWhatTheHostWaitsFor) {
  FlightRecord record;
  const auto first = record.begin("exchange", "world", 1, 8);
  const auto second = record.begin("barrier", "control", 1, 0);
  EXPECT_FALSE(record.waiting());
  EXPECT_EQ(record.wait(second), second);
  ASSERT_TRUE(record.waiting());
  EXPECT_STREQ(record.waiting()->name, "barrier");
  record.end(second);
  EXPECT_FALSE(record.waiting());
  EXPECT_EQ(record.wait(first), first);
  EXPECT_EQ(record.waiting()->number, first);
  record.enqueued(first);
  EXPECT_FALSE(record.waiting());
  EXPECT_EQ(record.read().front().state, OperationState::enqueued);
  EXPECT_LE(record.read().front().began, record.read().front().changed);
}

TEST(FlightRecord, WaitsForWhatWasOverwritten) {
  FlightRecord record;
  const auto first = record.begin("exchange", "world", 1, 8);
  for (std::size_t i = 0; i < FlightRecord::kEntries; ++i) record.begin("exchange", "world", 2, 8);
  record.end(first);  // of no consequence to the entry that took its place
  EXPECT_EQ(record.read().back().state, OperationState::started);
  const auto again = record.wait(first);
  EXPECT_NE(again, first);
  ASSERT_TRUE(record.waiting());
  EXPECT_EQ(record.waiting()->sequence, first);
}

TEST(FlightRecord, PatienceIsOfTheOperationsThatBeginInIt) {
  FlightRecord record;
  EXPECT_FALSE(record.set_patient(true));
  record.wait(record.begin("sum", "control", 1, 8));
  EXPECT_TRUE(record.waiting()->patient);
  EXPECT_TRUE(record.set_patient(false));
  record.wait(record.begin("sum", "control", 2, 8));
  EXPECT_FALSE(record.waiting()->patient);
}

TEST(GroupLog, LabelsAndCounts) {
  GroupLog first("a group of this test");
  GroupLog second("a group of this test");
  EXPECT_STREQ(first.label(), "a group of this test");
  EXPECT_STREQ(second.label(), "a group of this test 2");
  const Waiting outer(first, "creation");
  {
    const Waiting inner(second, "barrier", 3);
    EXPECT_STREQ(FlightRecord::of_process().waiting()->name, "barrier");
  }
  EXPECT_STREQ(FlightRecord::of_process().waiting()->name, "creation");
  second.begin("exchange", 5);
  const auto newest = FlightRecord::of_process().newest();
  ASSERT_TRUE(newest);
  EXPECT_STREQ(newest->group, second.label());
  EXPECT_EQ(newest->sequence, 2U);
}

/// Every value of an entry follows from its number: one of another entry would show.
TEST(FlightRecord, ReadersSeeWholeEntriesOnly) {
  constexpr std::uint64_t kOperations = 20000;
  static constexpr const char* kNames[] = {"a", "b", "c"};
  FlightRecord record;
  std::atomic<bool> over{false};
  std::uint64_t seen = 0;
  std::thread reader([&] {
    while (!over) {
      std::uint64_t before = 0;
      for (const Operation& operation : record.read()) {
        ASSERT_GT(operation.number, before);
        before = operation.number;
        ASSERT_EQ(operation.sequence, 3 * operation.number);
        ASSERT_EQ(operation.bytes, 7 * operation.number);
        ASSERT_STREQ(operation.name, kNames[operation.number % 3]);
        ASSERT_LE(operation.began, operation.changed);
        ++seen;
      }
      if (const auto waiting = record.waiting()) {
        ASSERT_EQ(waiting->state, OperationState::waiting);
      }
    }
  });
  for (std::uint64_t number = 1; number <= kOperations; ++number) {
    record.begin(kNames[number % 3], "world", 3 * number, 7 * number);
    record.wait(number);
    record.end(number);
  }
  while (record.read().size() < FlightRecord::kEntries) {
  }
  over = true;
  reader.join();
  EXPECT_EQ(record.newest()->number, kOperations);
}

}  // namespace
}  // namespace zeropp::comm
