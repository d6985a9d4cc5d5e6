// ctest: name=base_lock_file timeout=60 labels=sanitize
// A file that one process is about to write is refused to others as long as it lives, and no
// longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <string>

#include "lib/base/lock_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string said(const std::string& holder) { return "held by " + holder; }

std::string refusal(const fs::path& target) {
  return test::refusal([&] { const LockFile lock(target, said); }, ExitCode::io);
}

TEST(LockFile, IsForOneAtATime) {
  const test::TemporaryFolder folder;
  const fs::path target = folder.path() / "train.h5";
  {
    const LockFile lock(target, said);
    EXPECT_EQ(lock.failure(), "");
    EXPECT_THAT(refusal(target),
                HasSubstr("held by process " + std::to_string(::getpid()) + " on "));
    const LockFile other(folder.path() / "sweep.h5", said);
    EXPECT_EQ(other.failure(), "") << "of another name";
  }
  EXPECT_TRUE(fs::is_empty(folder.path())) << "nothing is left of it";
  const LockFile again(target, said);
  EXPECT_EQ(again.failure(), "");
}

/// The lock file of a killed process does not stop the next process.
TEST(LockFile, EndsWithItsProcess) {
  const test::TemporaryFolder folder;
  const fs::path target = folder.path() / "train.h5";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const LockFile lock(target, said);
    (void)!::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal(target), HasSubstr("process " + std::to_string(child) + " on "));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder.path() / ".train.h5.lock"));
  {
    const LockFile lock(target, said);
    EXPECT_EQ(lock.failure(), "");
    EXPECT_THAT(refusal(target), HasSubstr("process " + std::to_string(::getpid()) + " on "));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

/// The folder was moved away, and one like it made, in which another process has its lock.
TEST(LockFile, WhatIsAnothersIsNotRemoved) {
  const test::TemporaryFolder place;
  const fs::path folder = place.path() / "out";
  fs::create_directory(folder);
  std::optional<LockFile> first(std::in_place, folder / "train.h5", said);
  fs::rename(folder, place.path() / "away");
  fs::create_directory(folder);
  const LockFile second(folder / "train.h5", said);
  first.reset();
  EXPECT_THAT(refusal(folder / "train.h5"), HasSubstr("held by"));
}

TEST(LockFile, WhatCannotBeLockedIsNoError) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(LockFile(folder.path() / "none" / "train.h5", said).failure(),
              HasSubstr("No such file"));
  fs::create_symlink(folder.path() / "elsewhere", folder.path() / ".train.h5.lock");
  EXPECT_NE(LockFile(folder.path() / "train.h5", said).failure(), "") << "a link is not followed";
  EXPECT_FALSE(fs::exists(folder.path() / "elsewhere"));
  fs::remove(folder.path() / ".train.h5.lock");
  ASSERT_EQ(::mkfifo((folder.path() / ".train.h5.lock").c_str(), 0600), 0);
  EXPECT_THAT(LockFile(folder.path() / "train.h5", said).failure(), HasSubstr("no regular file"));
}

/// The folder was removed or moved away, and made again.
TEST(LockFile, IsTakenAgainWhereItsFileIsLost) {
  const test::TemporaryFolder place;
  const fs::path folder = place.path() / "out";
  fs::create_directory(folder);
  LockFile first(folder / "train.h5", said);
  first.renew();
  EXPECT_THAT(refusal(folder / "train.h5"), HasSubstr("held by")) << "it has its name";
  fs::remove_all(folder);
  fs::create_directory(folder);
  first.renew();
  EXPECT_EQ(first.failure(), "");
  EXPECT_THAT(refusal(folder / "train.h5"), HasSubstr("held by"));
  fs::rename(folder, place.path() / "away");
  fs::create_directory(folder);
  const LockFile second(folder / "train.h5", said);
  EXPECT_THAT(test::refusal([&] { first.renew(); }, ExitCode::io), HasSubstr("held by"));
}

}  // namespace
}  // namespace zeropp
