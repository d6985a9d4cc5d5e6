// Saves checkpoints while the work goes on: start() takes a copy of this rank's slices and writes
// its file on a thread; commit() waits for the files of all ranks and makes the checkpoint
// complete. The thread calls no MPI. Collective: all ranks call start() and commit() in the same
// order. What fails on any rank ends in one message on all (AgreedError): the checkpoint is given
// up and removed, and older ones stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/folder.hpp"
#include "lib/checkpoint/rank_file.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::checkpoint {

/// A slice with values of its own, in host memory.
struct OwnedSlice {
  Slice slice;
  std::vector<std::byte> values;  ///< slice.bytes()
};

class Saver {
 public:
  /// `root`: the run's folder of checkpoints, seen by all ranks. `keep`: complete checkpoints that
  /// stay, at least 1. `control` outlives this.
  Saver(comm::Control& control, std::filesystem::path root, std::size_t keep);
  /// Waits for the thread; what was not committed is no checkpoint.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Begins to save `step`. `state`: what is no array, the same on all ranks. A checkpoint that is
  /// still being written is committed first.
  void start(std::uint64_t step, std::string state, std::vector<OwnedSlice> slices);

  /// Whether this rank's file is written, or failed; commit() would not wait for it. False where
  /// nothing was started.
  [[nodiscard]] bool written() const;
  [[nodiscard]] bool pending() const { return writing_.has_value(); }

  /// Completes what start() began; does nothing where that was nothing.
  void commit();

 private:
  struct Writing {
    Manifest manifest;  ///< of rank 0: without slices yet
    std::vector<OwnedSlice> slices;
    std::future<std::vector<StoredSlice>> file;
  };

  /// All ranks go on, or all throw AgreedError and what was begun of `step` is removed.
  void agree(std::uint64_t step, const std::optional<Error>& status);

  comm::Control& control_;
  Folder folder_;
  std::size_t keep_;
  std::optional<Writing> writing_;
};

}  // namespace zeropp::checkpoint
