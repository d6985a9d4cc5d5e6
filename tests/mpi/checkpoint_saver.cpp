// ctest: name=checkpoint_saver np=1,4 timeout=60 labels=sanitize
// Saving by all ranks at once: complete for any reader, beside the work, and given up by all where
// one rank fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "lib/checkpoint/saver.hpp"
#include "tests/support/checkpoint_case.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/verified_rank_file.hpp"

namespace zeropp::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::world;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder that all ranks see, removed by rank 0 at the end.
class SharedFolder {
 public:
  SharedFolder() {
    std::string name;
    if (world().rank() == 0) {
      name = (fs::temp_directory_path() / "zeropp-test-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) name.clear();
    }
    path_ = world().control().broadcast(name);
  }
  ~SharedFolder() {
    world().control().barrier();
    std::error_code ignored;
    if (world().rank() == 0) fs::remove_all(path_, ignored);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const std::vector<test::Array> kArrays{{"w", 4, 1003}, {"m", 2, 7}, {"none", 4, 0}};

/// This rank's parts of kArrays, in memory that lives until the process ends.
std::vector<HostSlice> own_slices() {
  static std::deque<std::vector<std::byte>> memory;
  std::vector<HostSlice> slices;
  for (const test::Array& array : kArrays) {
    const Slice part = array.part(static_cast<std::uint64_t>(world().rank()),
                                  static_cast<std::uint64_t>(world().size()));
    slices.push_back({part, memory.emplace_back(array.values(part))});
  }
  return slices;
}

std::uint64_t bytes_of(const std::vector<HostSlice>& slices) {
  std::uint64_t bytes = 0;
  for (const HostSlice& slice : slices) bytes += slice.values.size();
  return bytes;
}

TEST(Saver, WhatAllRanksSavedEveryRankReads) {
  world().set_topology(0);
  const SharedFolder place;
  Saver saver(world().control(), place.path(), 2);
  EXPECT_FALSE(saver.pending());
  for (const std::uint64_t step : {10, 20, 30}) {
    saver.start(step, "state " + std::to_string(step), own_slices());
    EXPECT_TRUE(saver.pending());
    const std::optional<Saved> saved = saver.commit();
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->step, step);
    EXPECT_EQ(saved->bytes, bytes_of(own_slices()));
    EXPECT_GT(saved->seconds, 0);
  }
  EXPECT_FALSE(saver.pending());
  EXPECT_FALSE(saver.commit());
  const Folder folder(place.path());
  EXPECT_THAT(folder.steps(), ElementsAre(30, 20));
  const Manifest manifest = folder.manifest(20);
  EXPECT_EQ(manifest.state, "state 20");
  EXPECT_EQ(manifest.world_size, static_cast<std::uint64_t>(world().size()));
  const ArrayReader reader(folder.complete(20), manifest);
  for (const test::Array& array : kArrays) {
    const Slice all = array.slice(0, array.total);
    std::vector<std::byte> values(all.bytes(), std::byte{0xA5});
    reader.read(all, values);
    EXPECT_EQ(values, array.values(all)) << array.name;
  }
}

TEST(Saver, WhatIsNotCommittedIsNoCheckpoint) {
  world().set_topology(0);
  const SharedFolder place;
  {
    Saver saver(world().control(), place.path(), 2);
    saver.start(10, "", own_slices());
  }
  world().control().barrier();
  EXPECT_THAT(Folder(place.path()).steps(), testing::IsEmpty());
}

/// Limit on this process's files, which cannot become longer than `bytes` until it ends.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    found.push_back(entry.path().filename().string());
  }
  return found;
}

TEST(Saver, WhereOneRankFailsAllGiveUpAndTheOlderOneStays) {
  world().set_topology(0);
  const SharedFolder place;
  const Folder folder(place.path());
  Saver saver(world().control(), place.path(), 2);
  saver.start(10, "", own_slices());
  saver.commit();
  {
    std::optional<FileSizeLimit> limit;
    if (world().rank() == world().size() - 1) limit.emplace(64);
    saver.start(20, "", own_slices());
    try {
      saver.commit();
      ADD_FAILURE() << "one rank could not write";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.reporter(), world().size() - 1);
      EXPECT_EQ(error.code(), ExitCode::io);
      EXPECT_THAT(error.what(), HasSubstr("cannot write"));
    }
  }
  EXPECT_FALSE(saver.pending());
  world().control().barrier();
  EXPECT_THAT(names(place.path()), ElementsAre("step-000000010"));
  EXPECT_EQ(folder.manifest(10).step, 10U);
  world().control().barrier();
  saver.start(30, "", own_slices());
  saver.commit();
  EXPECT_THAT(folder.steps(), ElementsAre(30, 10));
}

TEST(Saver, TwoJobsInOneFolderDoNotMixTheirFiles) {
  world().set_topology(0);
  const SharedFolder place;
  Saver one(world().control(), place.path(), 2);
  Saver other(world().control(), place.path(), 2);
  one.start(10, "one", own_slices());
  while (!one.written()) std::this_thread::yield();
  world().control().barrier();
  auto slices = own_slices();
  const std::vector<std::byte> zeros(slices.front().values.size());
  slices.front().values = zeros;
  other.start(10, "other", slices);
  while (!other.written()) std::this_thread::yield();
  world().control().barrier();
  one.commit();
  EXPECT_THAT([&] { other.commit(); },
              testing::ThrowsMessage<comm::AgreedError>(HasSubstr("another job saves there too")));
  world().control().barrier();
  const Folder folder(place.path());
  EXPECT_EQ(folder.manifest(10).state, "one");
  EXPECT_NO_THROW(test::verify_rank_file(folder.complete(10), folder.manifest(10),
                                         static_cast<std::uint64_t>(world().rank())));
}

/// Renamed or removed, before a save and while files are written: in the words of rank 0, on all.
TEST(Saver, AFolderThatIsTakenAwayIsSaid) {
  world().set_topology(0);
  const SharedFolder place;
  const fs::path root = place.path() / "checkpoints";
  const fs::path away = place.path() / "away";
  const auto by_rank_0 = [](const std::function<void()>& work) {
    world().control().barrier();
    if (world().rank() == 0) work();
    world().control().barrier();
  };
  by_rank_0([&] { fs::create_directory(root); });
  Saver saver(world().control(), root, 2);
  const auto expect_said = [&](const std::function<void()>& work) {
    EXPECT_THAT(work, testing::ThrowsMessage<comm::AgreedError>(
                          testing::AllOf(HasSubstr("cannot save the checkpoint after 20 steps"),
                                         HasSubstr(root.string() + " is no longer there"))));
  };
  saver.start(10, "", own_slices());
  saver.commit();
  saver.start(20, "", own_slices());
  by_rank_0([&] { fs::rename(root, away); });
  expect_said([&] { saver.commit(); });
  expect_said([&] { saver.start(20, "", own_slices()); });
  by_rank_0([&] { fs::rename(away, root); });
  const Saver::Beside removing = [&](const fs::path& folder) {
    by_rank_0([&] { fs::remove_all(root); });
    world().control().agree(Error(ExitCode::io, "cannot create a file in " + folder.string()));
    return std::vector<StoredFile>{};
  };
  expect_said([&] { saver.start(20, "", own_slices(), removing); });
  by_rank_0([&] { fs::remove_all(away); });
}

TEST(Saver, SlicesThatLeaveAGapAreNoCheckpoint) {
  world().set_topology(0);
  const SharedFolder place;
  Saver saver(world().control(), place.path(), 2);
  std::vector<HostSlice> slices = own_slices();
  if (world().rank() == 0) slices.erase(slices.begin());
  saver.start(10, "", std::move(slices));
  if (world().size() == 1) {
    saver.commit();  // an array that nobody has
  } else {
    EXPECT_THROW(saver.commit(), comm::AgreedError);
    EXPECT_THAT(Folder(place.path()).steps(), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace zeropp::checkpoint
