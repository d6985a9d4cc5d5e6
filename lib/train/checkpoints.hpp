// Checkpoints of a training run: when it saves itself, and how it resumes. Collective: all ranks of
// the context call everything, in the same order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/base/lock_file.hpp"
#include "lib/checkpoint/saver.hpp"
#include "lib/config/train_config.hpp"
#include "lib/device/buffer.hpp"
#include "lib/train/saved_state.hpp"
#include "lib/train/session.hpp"
#include "lib/train/tokens.hpp"

namespace zeropp::train {

class Checkpoints {
 public:
  /// The references outlive this object. Throws AgreedError where the folder to save to holds
  /// checkpoints that the run does not resume from, or where another run saves there, and where the
  /// one to load from holds none, unless the run saves to it: a job that starts itself again begins
  /// without any.
  Checkpoints(const config::TrainConfig& config, const app::Context& context, const Tokens& tokens);

  /// Restores the newest checkpoint that is whole, or the one whose own folder is given, and
  /// returns how many steps it is after. Damaged ones that are newer are named, and set aside where
  /// the run saves to their folder. Where there is none, which is warned of, the weights that the
  /// run is to begin with are read, and 0 is returned. Throws AgreedError, and changes nothing in
  /// the folder, where there are some checkpoints and none can be used, or where the one to use is
  /// of another model or optimizer.
  std::uint64_t load(Session& session);

  /// Saves after `done` steps: completes what is written, begins what is due. The last is complete
  /// on return.
  void stepped(std::uint64_t done, Session& session);

  /// Saves the state of a run that ends here, before its last step, where the run saves at all and
  /// its weights are of use. Files that are being written are complete on return.
  void end_early(std::uint64_t done, Session& session);

 private:
  /// Both functions leave their cost in the recorder.
  void save(std::uint64_t done, Session& session);
  void commit(Session& session);
  /// Completes the last checkpoint: nothing is left to do when it returns.
  void finish(Session& session);
  /// The folder of checkpoints to load from, and the step of the one to take where its own folder
  /// is given.
  struct Source {
    checkpoint::Folder folder;
    std::optional<std::uint64_t> only;

    /// Throws Error(io).
    [[nodiscard]] std::vector<std::uint64_t> steps() const;
  };
  [[nodiscard]] Source source() const;
  /// Throws Error(io) where there is no checkpoint to load and the run does not save there.
  void require_source() const;
  /// Locks the folder to save to. Throws Error where it cannot be used, or another run saves there.
  void take_own_folder();
  /// Whether the run resumes from the folder that it saves to.
  [[nodiscard]] bool goes_on_here() const;
  /// Loads as load() does, without weights of another file.
  std::uint64_t load_newest(Session& session);
  /// Identity that a checkpoint of this run and one that it resumes from have in common.
  [[nodiscard]] nlohmann::json identity(const Session& session) const;
  /// Throws AgreedError: with the code usage where the checkpoint is of another run than this.
  void restore(Session& session, const checkpoint::Folder& folder, std::uint64_t step) const;
  /// Restores one rank.
  void restore(Session& session, const checkpoint::Folder& folder, std::uint64_t step,
               const checkpoint::Manifest& manifest) const;
  /// Warns where files for other programs are not the ones that were written with the checkpoint.
  void warn_of_exported(const checkpoint::Manifest& manifest,
                        const std::filesystem::path& folder) const;
  /// Warns of differences between this run and the run of the checkpoint that it resumes from all
  /// the same. `unknown`: names of settings that the checkpoint does not record.
  void warn_of_other_run(const SavedState& state, const std::vector<std::string>& unknown) const;
  /// Warns of saved state that this run does not use, and of state that has to begin anew.
  /// `errors`: of this run's error feedback; `found_copies`: weight differences resume from saved
  /// copies, which is reported as well.
  void warn_of_losses(const zero::Restored& restored, const checkpoint::Manifest& manifest,
                      const std::vector<zero::NamedState>& errors, bool found_copies) const;

  const config::TrainConfig& config_;
  const app::Context& context_;
  const Tokens& tokens_;
  std::unique_ptr<LockFile> lock_;  ///< on the folder to save to; rank 0
  Buffer memory_;                   ///< what is being written; the saver's thread reads it
  std::optional<checkpoint::Saver> saver_;
  double paused_ = 0;        ///< seconds for the checkpoint that is being written
  std::uint64_t saved_ = 0;  ///< the step of the last checkpoint that was begun, or loaded
};

}  // namespace zeropp::train
