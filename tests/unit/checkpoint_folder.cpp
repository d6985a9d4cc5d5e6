// ctest: name=checkpoint_folder timeout=60 labels=sanitize
// When a checkpoint counts: whatever was left half done, what is listed is complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lib/base/error.hpp"
#include "lib/checkpoint/folder.hpp"
#include "tests/support/checkpoint_case.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::MatchesRegex;

const test::Array kArray{"w", 4, 10};

void save(Folder& folder, std::uint64_t step, const std::string& state) {
  folder.begin(step);
  folder.commit({step, 1, state, test::write_parts(folder.partial(step), {kArray}, 0, 1)});
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    found.push_back(entry.path().filename().string());
  }
  std::ranges::sort(found);
  return found;
}

TEST(CheckpointFolder, CompleteOnesAreListedNewestFirst) {
  const test::TemporaryFolder place;
  Folder folder(place.path() / "checkpoints");
  EXPECT_THAT(folder.steps(), IsEmpty()) << "there is no folder";
  EXPECT_THAT([&] { folder.begin(5); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("is no longer there")))
      << "it is not made again";
  folder.prepare();
  EXPECT_THAT(names(place.path() / "checkpoints"), IsEmpty()) << "nothing stays of the attempt";
  save(folder, 5, "five");
  save(folder, 40, "forty");
  save(folder, 1'000'000'000'000, "large");
  EXPECT_THAT(folder.steps(), ElementsAre(1'000'000'000'000, 40, 5));
  EXPECT_EQ(folder.manifest(40).state, "forty");
  EXPECT_EQ(folder.manifest(40).step, 40U);
}

TEST(CheckpointFolder, WhatWasNotCommittedIsNoCheckpoint) {
  const test::TemporaryFolder place;
  Folder folder(place.path());
  save(folder, 5, "five");
  folder.begin(6);
  (void)test::write_parts(folder.partial(6), {kArray}, 0, 1);
  EXPECT_THAT(folder.steps(), ElementsAre(5));
  folder.begin(6);
  EXPECT_THAT(names(folder.partial(6)), IsEmpty()) << "a new save begins with nothing";
}

TEST(CheckpointFolder, WhatIsGivenUpLeavesNothing) {
  const test::TemporaryFolder place;
  Folder folder(place.path());
  folder.begin(6);
  (void)test::write_parts(folder.partial(6), {kArray}, 0, 1);
  folder.give_up(6);
  folder.give_up(7);
  EXPECT_THAT(names(place.path()), IsEmpty());
}

TEST(CheckpointFolder, WhatOthersTookAwayIsSaid) {
  const test::TemporaryFolder place;
  const fs::path root = place.path() / "checkpoints";
  Folder folder(root);
  folder.prepare();
  folder.begin(6);
  EXPECT_EQ(folder.taken_away(6), "");
  Folder::remove(Folder(root, "another").retire(1));
  EXPECT_THAT(folder.taken_away(6),
              MatchesRegex("cannot save the checkpoint after 6 steps: .* removed from " +
                           root.string() + "; another job .*: give every run a folder .*"));
  fs::rename(root, place.path() / "away");
  EXPECT_THAT(folder.taken_away(6),
              MatchesRegex("cannot save the checkpoint after 6 steps: the folder " + root.string() +
                           " is no longer there; another job or somebody .*: bring it back.*"));
}

TEST(CheckpointFolder, ALaterOneIsAnotherJobs) {
  const test::TemporaryFolder place;
  Folder folder(place.path());
  save(folder, 5, "ours");
  Folder another(place.path(), "another");
  another.adopt();
  save(another, 40, "another's");
  EXPECT_THAT([&] { save(folder, 6, "ours"); },
              testing::ThrowsMessage<Error>(MatchesRegex(
                  "cannot save the checkpoint after 6 steps: " + place.path().string() +
                  " holds one after 40 by now; another job saves there too: give .*")));
  EXPECT_THAT(folder.steps(), ElementsAre(40, 5));
}

/// Two runs save the same steps, or steps between each other's.
TEST(CheckpointFolder, WhatAnotherRunSavedIsNotReplaced) {
  for (const std::uint64_t step : {5, 6, 9}) {
    const test::TemporaryFolder place;
    Folder one(place.path(), "one");
    Folder other(place.path(), "other");
    save(one, 5, "one's");
    EXPECT_THAT([&] { save(other, step, "other's"); },
                testing::ThrowsMessage<Error>(MatchesRegex(
                    "cannot save the checkpoint after .* steps: .* holds one after 5 by now; "
                    "another job saves there too: give .*")));
    EXPECT_EQ(one.manifest(5).state, "one's");
    EXPECT_THAT(one.steps(), ElementsAre(5));
    save(one, 7, "one's");
  }
}

TEST(CheckpointFolder, ARunGoesOnBesideItsPast) {
  const test::TemporaryFolder place;
  Folder first(place.path(), "first");
  save(first, 5, "first's");
  save(first, 9, "first's");
  Folder second(place.path(), "second");
  second.adopt();
  second.set_aside(9);
  save(second, 9, "second's");
  EXPECT_EQ(second.manifest(9).state, "second's");
  EXPECT_THAT(second.steps(), ElementsAre(9, 5));
}

TEST(CheckpointFolder, PruneKeepsTheNewestAndClearsWhatWasLeft) {
  const test::TemporaryFolder place;
  Folder folder(place.path());
  for (const std::uint64_t step : {3, 9, 27}) save(folder, step, "");
  folder.begin(81);
  fs::create_directory(place.path() / ".step-000000001.removed");
  std::ofstream(place.path() / "notes.txt") << "the user's";
  Folder::remove(folder.retire(2));
  EXPECT_THAT(names(place.path()), ElementsAre("notes.txt", "step-000000009", "step-000000027"));
  Folder::remove(folder.retire(0));
  EXPECT_THAT(folder.steps(), ElementsAre(27));
}

TEST(CheckpointFolder, OtherNamesAreNoCheckpoints) {
  const test::TemporaryFolder place;
  for (const char* name :
       {"step-", "step-12x", "step--3", "step-7", "other", "step-99999999999999999999999"}) {
    fs::create_directory(place.path() / name);
  }
  Folder folder(place.path());
  EXPECT_THAT(folder.steps(), IsEmpty());
  save(folder, 9, "");
  Folder::remove(folder.retire(1));
  EXPECT_THAT(folder.steps(), ElementsAre(9));
  EXPECT_TRUE(fs::exists(place.path() / "step-7")) << "not ours to remove";
}

TEST(CheckpointFolder, AManifestThatIsNotThereOrDamagedIsAnError) {
  const test::TemporaryFolder place;
  Folder folder(place.path());
  save(folder, 5, "five");
  const fs::path manifest = folder.complete(5) / "manifest.json";
  fs::rename(folder.complete(5), folder.complete(6));
  EXPECT_THROW((void)folder.manifest(6), Error) << "of another step than its name says";
  fs::rename(folder.complete(6), folder.complete(5));
  std::ofstream(manifest, std::ios::app) << "x";
  EXPECT_THROW((void)folder.manifest(5), Error);
  fs::remove(manifest);
  EXPECT_THROW((void)folder.manifest(5), Error);
}

}  // namespace
}  // namespace zeropp::checkpoint
