// The training loop: draws batches, steps the engine, evaluates, reports progress, writes the
// trace. Collective: every rank runs the same calls; rank 0 prints and writes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "apps/train/progress.hpp"
#include "lib/app/app.hpp"
#include "lib/app/gpu_sampling.hpp"
#include "lib/config/train_config.hpp"
#include "lib/data/sampler.hpp"
#include "lib/data/token_source.hpp"
#include "lib/device/device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/trace/trace_data.hpp"
#include "lib/zero/engine.hpp"
#include "lib/zero/unit_model.hpp"

namespace zeropp::train {

class Trainer {
 public:
  /// `config` is resolved; both outlive the trainer. Throws Error: data, memory, output folder.
  Trainer(const config::TrainConfig& config, const app::Context& context);

  /// check_failed when the trace's verdict is INVALID.
  ExitCode run();

 private:
  void agree_on_data();
  bool end_early(std::uint64_t done);
  void step(std::uint64_t step);
  void evaluate(std::uint64_t steps_done);
  /// Sums and maxima over ranks; rank 0 writes. Returns the verdict.
  std::string write_trace(app::GpuSampling& sampling);

  const config::TrainConfig& config_;
  const app::Context& context_;
  Device device_;
  trace::Recorder recorder_;
  comm::Groups groups_;
  comm::Groups reduce_groups_;  ///< the same ranks: reductions do not queue behind gathers
  std::unique_ptr<data::TokenSource> source_;
  std::unique_ptr<data::Sampler> sampler_;
  std::unique_ptr<zero::UnitModel> model_;
  std::unique_ptr<zero::Engine> engine_;
  data::TokenBatch batch_;
  data::Place place_;
  std::size_t evaluation_batches_ = 0;  ///< micro-batches a rank and evaluation, as the data allows
  Progress progress_;
};

}  // namespace zeropp::train
