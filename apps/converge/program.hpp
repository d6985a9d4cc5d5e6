// zpp_converge: plans the matrix, loads its tokens, lets teams do the runs that are missing, keeps
// each as it ends, and writes converge.h5 when all are there. Collective; rank 0 writes the trace.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/converge/matrix.hpp"
#include "apps/converge/plan.hpp"
#include "apps/converge/run_store.hpp"
#include "apps/converge/study.hpp"
#include "apps/converge/team.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/train/tokens.hpp"

namespace zeropp::converge {

class StudyProgram {
 public:
  /// Throws Error as the trainer does.
  StudyProgram(const Matrix& matrix, const Options& options, const app::Context& context);

  /// Runs the study. Returns check_failed where the matrix is INVALID, requeue where a signal ended
  /// it.
  ExitCode run();

 private:
  void load_tokens();
  [[nodiscard]] const train::Tokens& tokens_of(std::size_t setting) const;
  /// Hash of all that a run depends on, which its setting's name is not.
  [[nodiscard]] std::string key_of(const StudyRun& run) const;
  /// Record of a training that was done before, whichever of the equal settings it was kept under.
  /// `training`: a run's trained_as.
  [[nodiscard]] std::optional<RunRecord> find_kept(std::size_t training) const;
  /// Place of the run's seed among the seeds of its setting.
  [[nodiscard]] std::ptrdiff_t place_of_seed(std::size_t run) const;
  /// Numbers of the runs that have to be trained and are not kept yet, the same on all ranks. The
  /// first seeds of all settings come first: a study that ends early has whole seeds.
  std::vector<std::size_t> find_missing();
  /// How to get the trace of the seeds without a run in `left`; empty where there are none.
  [[nodiscard]] std::string hint_of_whole_seeds(const std::vector<std::size_t>& left) const;
  /// Does the runs of `missing` that are this team's: every count-th, from its own index on.
  /// Returns the signal that ended it, or 0.
  int do_own(const std::vector<std::size_t>& missing);
  void report(std::size_t number, const RunRecord& record) const;
  /// Brings the new records to rank 0, and gives settings that train the same the same ones.
  void collect();
  std::string write_trace();

  const app::Context& context_;
  Team team_;
  Plan plan_;
  std::string build_;
  RunStore store_;
  app::OutputLock outputs_;
  std::map<std::string, train::Tokens> tokens_;  ///< by data options
  std::vector<std::string> source_of_;           ///< key in tokens_, by setting
  std::vector<RunRecord> records_;               ///< by run: rank 0, and what this team's root did
  std::vector<std::size_t> done_;                ///< by this rank, as root of a team
};

}  // namespace zeropp::converge
