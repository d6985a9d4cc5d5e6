// Saves checkpoints while the work continues: start() begins to write this rank's slices on a
// thread; commit() waits for the files of all ranks and makes the checkpoint complete. The thread
// calls no MPI. Collective: all ranks call start() and commit() in the same order. A failure on any
// rank (files, memory, a thread) ends in one message on all ranks (AgreedError): the checkpoint is
// given up and removed, and older ones stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/folder.hpp"
#include "lib/checkpoint/rank_file.hpp"
#include "lib/comm/control.hpp"

namespace zeropp::checkpoint {

/// A checkpoint that commit() made complete.
struct Saved {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;  ///< of this rank's file
  double seconds = 0;       ///< that this rank wrote, digested and flushed them in
};

class Saver {
 public:
  /// `root`: the run's folder of checkpoints, seen by all ranks. `keep`: complete checkpoints that
  /// stay, at least 1. `control` outlives this. Collective.
  Saver(comm::Control& control, std::filesystem::path root, std::size_t keep);
  /// Waits for the thread. A save that was not committed leaves no checkpoint.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Writes more files to the given folder, and returns on rank 0 what the manifest keeps of them;
  /// all ranks call it, and where it fails, all throw AgreedError.
  using Beside = std::function<std::vector<StoredFile>(const std::filesystem::path&)>;

  /// Begins to save `step`, while no other save is under way. `state`: state that is no array, the
  /// same on all ranks. The values of `slices` stay as they are until commit(). `beside` is called
  /// before this returns.
  void start(std::uint64_t step, std::string state, std::vector<HostSlice> slices,
             const Beside& beside = {});

  /// Whether this rank's file is written, or failed; commit() would not wait for it. False where
  /// nothing was started.
  [[nodiscard]] bool written() const;
  [[nodiscard]] bool pending() const { return writing_.has_value(); }

  /// Completes what start() began; nullopt where nothing was begun. Older checkpoints that it makes
  /// superfluous are removed while the work continues: gigabytes of files take seconds.
  std::optional<Saved> commit();

  /// Waits until superfluous checkpoints are removed, as the next start() does.
  void settle();

 private:
  struct Written {
    std::vector<StoredSlice> slices;
    double seconds;
  };
  struct Writing {
    Manifest manifest;    ///< of rank 0: without slices yet
    std::uint64_t bytes;  ///< of this rank
    std::future<Written> file;
  };

  /// Starts the thread that writes. Where no thread starts, the future holds the exception.
  [[nodiscard]] std::future<Written> begin_to_write(std::uint64_t step,
                                                    std::vector<HostSlice> slices) const;
  /// Runs `work`, which all ranks run together. Where it throws AgreedError, removes the unfinished
  /// checkpoint of `step` and throws the error again; where another program had removed it before,
  /// the error says so.
  void or_give_up(std::uint64_t step, const std::function<void()>& work);
  /// Completes the checkpoint on rank 0: `parts` are the slices that each rank has written.
  void complete(Manifest& whole, const std::vector<std::string>& parts);

  comm::Control& control_;
  Folder folder_;
  std::size_t keep_;
  std::optional<Writing> writing_;
  std::future<void> removing_;  ///< on rank 0
};

}  // namespace zeropp::checkpoint
