// zpp_train: one run of the training session, with its progress, its orderly end on a signal, and
// its trace. Collective: every rank runs the same calls; rank 0 prints and writes.
#pragma once

#include <string>

#include "apps/train/progress.hpp"
#include "lib/app/app.hpp"
#include "lib/app/gpu_sampling.hpp"
#include "lib/app/outputs.hpp"
#include "lib/config/train_config.hpp"
#include "lib/train/checkpoints.hpp"
#include "lib/train/session.hpp"
#include "lib/train/tokens.hpp"

namespace zeropp::train_app {

class Trainer {
 public:
  /// `config` is resolved; both outlive the trainer. Throws Error: data, memory, output folder.
  Trainer(const config::TrainConfig& config, const app::Context& context);

  /// Runs the training. Returns check_failed when the trace's verdict is INVALID.
  ExitCode run();

 private:
  bool end_early(std::uint64_t done, std::uint64_t first, int signal);
  void warn_of_corruption();
  /// Renames the trace of the run that this one resumes, so that it stays. On rank 0.
  void keep_earlier_trace();
  /// Writes the trace of sums and maxima over ranks, on rank 0. Returns the verdict.
  std::string write_trace(app::GpuSampling& sampling);

  const config::TrainConfig& config_;
  const app::Context& context_;
  app::OutputLock outputs_;
  train::Tokens tokens_;
  train::Checkpoints checkpoints_;
  train::Session session_;
  Progress progress_;
};

}  // namespace zeropp::train_app
