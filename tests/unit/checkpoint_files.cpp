// ctest: name=checkpoint_files timeout=60 labels=sanitize
// Slices of arrays in files: read back as other slices, for any two numbers of ranks; damage is
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "lib/base/error.hpp"
#include "tests/support/checkpoint_case.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/verified_rank_file.hpp"

namespace zeropp::checkpoint {
namespace {

using test::Array;
using testing::HasSubstr;

Manifest write_all(const std::filesystem::path& folder, const std::vector<Array>& arrays,
                   std::uint64_t ranks) {
  Manifest manifest{7, ranks, R"({"seed":1})", {}};
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    for (StoredSlice& slice : test::write_parts(folder, arrays, rank, ranks)) {
      manifest.slices.push_back(std::move(slice));
    }
  }
  return parse_manifest(to_text(manifest), "a manifest");
}

/// The bytes of `slice`, read into memory that held other bytes.
std::vector<std::byte> read(const std::filesystem::path& folder, const Manifest& manifest,
                            const Slice& slice) {
  std::vector<std::byte> values(slice.bytes(), std::byte{0xA5});
  ArrayReader(folder, manifest).read(slice, values);
  return values;
}

TEST(CheckpointFiles, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const test::TemporaryFolder folder;
    std::vector<Array> arrays(3);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      arrays[i] = {"array " + std::to_string(i), std::size_t{1} << (random() % 4),
                   random() % 5 == 0 ? random() % 3 : random() % 5000};
    }
    const std::uint64_t ranks = 1 + random() % 7;
    const Manifest manifest = write_all(folder.path(), arrays, ranks);
    EXPECT_EQ(manifest.step, 7U);
    EXPECT_EQ(manifest.state, R"({"seed":1})");
    const std::uint64_t readers = 1 + random() % 7;
    for (const Array& array : arrays) {
      for (std::uint64_t rank = 0; rank < readers; ++rank) {
        const Slice part = array.part(rank, readers);
        ASSERT_EQ(read(folder.path(), manifest, part), array.values(part))
            << ranks << " ranks wrote, " << readers << " read";
      }
    }
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      test::verify_rank_file(folder.path(), manifest, rank);
    }
  }
}

TEST(CheckpointFiles, SlicesOfSeveralChunks) {
  const test::TemporaryFolder folder;
  const Array array{"large", 4, (2 * kChunk + 1000) / 4};
  const Manifest manifest = write_all(folder.path(), {array}, 1);
  EXPECT_EQ(manifest.slices.at(0).digests.size(), 3U);
  for (const Slice& slice :
       {array.slice(0, array.total), array.slice(kChunk / 4 - 3, 7),
        array.slice(kChunk / 4, kChunk / 4), array.slice(array.total - 1, 1), array.slice(5, 0)}) {
    EXPECT_EQ(read(folder.path(), manifest, slice), array.values(slice));
  }
}

void flip(const std::filesystem::path& path, std::uint64_t bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bit / 8));
  const char byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
  file.seekp(static_cast<std::streamoff>(bit / 8));
  file.put(byte);
}

TEST(CheckpointFiles, AFlippedBitIsFoundWhereverItIs) {
  const test::TemporaryFolder folder;
  const std::vector<Array> arrays{{"a", 4, 50}, {"b", 2, 31}};
  const Manifest manifest = write_all(folder.path(), arrays, 2);
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    const auto path = folder.path() / rank_file(rank);
    const std::uint64_t bits = 8 * std::filesystem::file_size(path);
    for (std::uint64_t bit = 0; bit < bits; ++bit) {
      flip(path, bit);
      EXPECT_THROW(test::verify_rank_file(folder.path(), manifest, rank), Error) << bit;
      int refused = 0;
      for (const Array& array : arrays) {
        try {
          (void)read(folder.path(), manifest, array.slice(0, array.total));
        } catch (const Error& error) {
          ++refused;
          EXPECT_EQ(error.code(), ExitCode::io);
          EXPECT_THAT(error.what(), HasSubstr("was damaged after it was written"));
          EXPECT_THAT(error.what(), HasSubstr(path.string()));
        }
      }
      EXPECT_EQ(refused, 1) << "the array that holds bit " << bit << ", and no other";
      flip(path, bit);
    }
    test::verify_rank_file(folder.path(), manifest, rank);
  }
}

TEST(CheckpointFiles, WhatIsMissingOrAnotherIsNamed) {
  const test::TemporaryFolder folder;
  const Array array{"a", 4, 50};
  const Manifest manifest = write_all(folder.path(), {array}, 2);
  const auto refusal = [&](const Slice& slice) -> std::string {
    try {
      (void)read(folder.path(), manifest, slice);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"b", 4, 50, 0, 50}), HasSubstr("has no array 'b'"));
  EXPECT_THAT(refusal({"a", 4, 51, 0, 51}), HasSubstr("has 50 elements of 4 bytes, and here 51"));
  EXPECT_THAT(refusal({"a", 2, 50, 0, 50}), HasSubstr("of another model"));
  std::filesystem::resize_file(folder.path() / rank_file(1), 99);
  EXPECT_THAT(refusal(array.slice(0, 50)), HasSubstr("it was cut short"));
  EXPECT_EQ(refusal(array.slice(0, 25)), "") << "rank 0's file is whole";
  std::filesystem::remove(folder.path() / rank_file(1));
  EXPECT_THAT(refusal(array.slice(0, 50)), HasSubstr("No such file"));
}

TEST(CheckpointFiles, NoFileIsWrittenOver) {
  const test::TemporaryFolder folder;
  const Array array{"a", 4, 50};
  (void)test::write_parts(folder.path(), {array}, 0, 1);
  EXPECT_THROW((void)test::write_parts(folder.path(), {array}, 0, 1), Error);
}

}  // namespace
}  // namespace zeropp::checkpoint
