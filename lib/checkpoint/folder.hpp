// The folder of a run's checkpoints, and when one counts: `ROOT/step-000000120/` is complete. It is
// written as `ROOT/.step-000000120.WRITER.partial/` by all ranks, gets its manifest, and is
// renamed, with an fsync before and after: a crash at any point leaves complete checkpoints and, at
// most, folders that no reader takes for one, which later saves remove. One rank calls what changes
// it. Throws Error(io).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/checkpoint/manifest.hpp"

namespace zeropp::checkpoint {

/// Step of the checkpoint whose own folder `path` is: one that has a manifest, and the name that
/// Folder::commit() gives. Nothing for all other paths.
[[nodiscard]] std::optional<std::uint64_t> step_of_checkpoint(const std::filesystem::path& path);

class Folder {
 public:
  /// `writer`: a name of this run, the same on all ranks, so that files of another run that saves
  /// to the same folder by mistake do not mix with its own. Not needed to read.
  explicit Folder(std::filesystem::path root, std::string writer = "none")
      : root_(std::move(root)), writer_(std::move(writer)) {}

  [[nodiscard]] std::filesystem::path complete(std::uint64_t step) const;
  [[nodiscard]] std::filesystem::path partial(std::uint64_t step) const;

  /// Makes the folder before the work, and shows that files can be written to it.
  void prepare() const;
  /// Takes the checkpoints that are there for this run's past. All that come later and are not
  /// committed here are another run's.
  void adopt();
  /// Makes an empty partial folder; files that an interrupted save left there are removed. A folder
  /// that has vanished is an error that says so, and is not made again: on a file system that went
  /// away it would come into being on another.
  void begin(std::uint64_t step) const;
  /// Commits a checkpoint when all ranks' files are on the disk: writes the manifest and makes the
  /// checkpoint complete. Throws Error(io) too where slices leave a gap, and where another run
  /// saves there too: one of its checkpoints would be replaced or retired, or retire this one.
  void commit(const Manifest& manifest);
  /// Line that says by whom this run's checkpoint of `step`, begun and not complete, may have been
  /// taken away, and the remedy. Empty where it is still there.
  [[nodiscard]] std::string taken_away(std::uint64_t step) const;
  /// Removes an unfinished checkpoint that cannot be completed; errors of the removal are ignored.
  void give_up(std::uint64_t step) const noexcept;
  /// Renames a complete checkpoint that turned out to be damaged to `ROOT/damaged-000000120`, which
  /// is no checkpoint; an earlier one of that name is removed.
  void set_aside(std::uint64_t step) const;
  /// Retires all complete checkpoints but the newest `keep` (at least 1): they no longer count.
  /// Returns the folders to remove, with those that interrupted calls left. No save may be under
  /// way.
  [[nodiscard]] std::vector<std::filesystem::path> retire(std::size_t keep) const;
  /// Removes folders that retire() returned. No other call waits for it.
  static void remove(const std::vector<std::filesystem::path>& retired);

  /// Steps of the complete checkpoints, newest first; empty where the folder is not there.
  [[nodiscard]] std::vector<std::uint64_t> steps() const;
  /// Throws Error(io) too for a manifest that is too large, not whole or of another step.
  [[nodiscard]] Manifest manifest(std::uint64_t step) const;

 private:
  /// Throws where there is a checkpoint that is not of this run, or not of an earlier step.
  void require_own(std::uint64_t step) const;
  /// Throws: this run's checkpoint of `step`, and another run's of `found`.
  [[noreturn]] void fail_beside_another(std::uint64_t step, std::uint64_t found) const;

  std::filesystem::path root_;
  std::string writer_;
  std::set<std::uint64_t> own_;  ///< steps of this run's checkpoints, some of them retired
};

}  // namespace zeropp::checkpoint
