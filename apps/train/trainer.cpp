#include "apps/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <numbers>
#include <string_view>

#include "apps/train/collect.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/app/outputs.hpp"
#include "lib/base/log.hpp"
#include "lib/collective/collective.hpp"
#include "lib/model/registry.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::train {

using Category = trace::Timers::Category;

Trainer::Trainer(const config::TrainConfig& config, const app::Context& context)
    : config_(config),
      context_(context),
      place_{static_cast<std::size_t>(context.control().rank()),
             static_cast<std::size_t>(context.control().size())},
      progress_(context.is_root(), config.train_steps, config.log_interval) {
  context_.agree_on([&] { app::preflight_outputs(context_); });
  context_.agree_on([&] {
    device_ =
        config_.backend == "cuda" ? Device::cuda(context_.gpus.index[place_.rank]) : Device::host();
  });
  if (config_.backend == "cuda" && !context_.gpus.warning.empty()) log::warn(context_.gpus.warning);
  const std::size_t partition = config_.zero.hpz_partition_size;
  comm::GroupOptions options{
      .device = device_,
      .transport = config_.transport == "nccl" ? comm::Transport::nccl : comm::Transport::mpi,
      .rail_lanes = config_.rail_lanes};
  // Starting a group takes NCCL a good part of a second: those that nothing runs on are not made.
  options.levels =
      collective::find_reduce_scatter(config_.zero.reduce_scatter_algorithm).hierarchical;
  reduce_groups_ = context_.world().make_groups(options);
  options.levels = collective::find_all_gather(config_.zero.all_gather_algorithm).hierarchical;
  if (partition > 1) options.secondary_size = static_cast<int>(partition);
  groups_ = context_.world().make_groups(options);
  context_.agree_on([&] {
    source_ = data::make_source(config_.data);
    sampler_ = std::make_unique<data::Sampler>(*source_, config_.seed, config_.model.seq_length,
                                               config_.train_micro_batch_size_per_gpu);
    model_ =
        model::make_model(config_.model, {.micro_batch = config_.train_micro_batch_size_per_gpu,
                                          .vocab_size = source_->vocab_size(),
                                          .device = device_,
                                          .compute = config_.zero.compute,
                                          .deterministic = config_.zero.deterministic,
                                          .autotune = config_.autotune_gemm,
                                          .timers = recorder_.timers});
    if (config_.evaluation_interval > 0) {
      evaluation_batches_ =
          std::min(config_.evaluation_batches, sampler_->held_out_batches(place_.world_size));
    }
  });
  agree_on_data();
  context_.agree_on([&] {
    engine_ =
        std::make_unique<zero::Engine>(config_.zero, config_.optimizer, *model_, groups_,
                                       reduce_groups_, context_.control(), device_, recorder_);
  });
}

/// Ranks may see different files under one path: on other machines, or from other folders.
void Trainer::agree_on_data() {
  const std::string own = data::fingerprint(*source_);
  const std::string reference = context_.control().broadcast(own);
  context_.agree_on([&] {
    if (own == reference) return;
    throw Error(ExitCode::io,
                fmt::format("token source '{}' is not the same on rank {} as on rank 0: give all "
                            "ranks the same file",
                            source_->description(), place_.rank));
  });
}

ExitCode Trainer::run() {
  if (context_.is_root()) {
    fmt::print("zpp_train on {}, {} over {}: {}, {}\n", context_.topology().describe(),
               config_.backend, config_.transport, config_.model.name, source_->description());
  }
  app::GpuSampling sampling(context_, config_.backend, config_.gpu_sampling);
  {
    const trace::Timers::Scope loop(recorder_.timers, Category::other);
    if (config_.evaluation_interval > 0) evaluate(0);
    for (std::uint64_t done = 0; done < config_.train_steps;) {
      if (end_early(done)) break;
      step(done);
      ++done;
      progress_.report(done, recorder_.steps.back());
      const bool last = done == config_.train_steps;
      if (config_.evaluation_interval > 0 && (last || done % config_.evaluation_interval == 0))
        evaluate(done);
    }
  }
  const std::string verdict = write_trace(sampling);
  if (context_.is_root()) fmt::print("{}  {}\n", verdict, context_.trace_path().string());
  if (verdict != "VALID") return ExitCode::check_failed;
  if (recorder_.interrupted.empty()) return ExitCode::ok;
  log::warn(fmt::format(
      "ended by {} after {} of {} steps, which are in the trace: start again to run it whole",
      recorder_.interrupted, recorder_.steps.size(), config_.train_steps));
  return ExitCode::requeue;
}

/// Whether a signal asks to end after `done` steps with a trace of these. Throws AgreedError where
/// there is nothing to keep: before the first step, and after SIGINT.
bool Trainer::end_early(std::uint64_t done) {
  const int signal = app::agreed_interrupt(context_.control());
  if (signal == 0) return false;
  if (signal == SIGINT || done == 0) {
    throw app::nothing_kept(signal, fmt::format("step {} of {}", done, config_.train_steps));
  }
  recorder_.interrupted = app::name_of_interrupt(signal);
  return true;
}

void Trainer::step(std::uint64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const zero::StepResult result = engine_->step([&](std::size_t micro_step) {
    const trace::Timers::Scope scope(recorder_.timers, Category::data);
    sampler_->train(step, micro_step, place_, batch_);
    return zero::Batch{batch_.sequences, batch_.length, batch_.tokens, batch_.targets};
  });
  std::array<double, 1> loss{result.loss};
  std::array<std::uint64_t, 4> bytes{result.sent.intra, result.sent.inter, result.predicted.intra,
                                     result.predicted.inter};
  {
    const trace::Timers::Scope scope(recorder_.timers, Category::communication);
    context_.control().all_reduce_sum(loss);
    context_.control().all_reduce_sum(bytes);
  }
  std::array<double, 4> slowest{
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      result.time_forward, result.time_backward, result.time_exposed};
  context_.control().all_reduce_max(slowest);
  trace::StepRow row;
  row.loss = loss[0] / static_cast<double>(place_.world_size);
  row.grad_norm = result.grad_norm;
  row.time = slowest[0];
  row.tokens_per_second =
      static_cast<double>(config_.train_batch_size * config_.model.seq_length) / row.time;
  row.bytes_intra_node = bytes[0];
  row.bytes_inter_node = bytes[1];
  row.bytes_predicted_intra_node = bytes[2];
  row.bytes_predicted_inter_node = bytes[3];
  row.learning_rate = config_.optimizer.learning_rate;
  row.skipped = result.skipped ? 1 : 0;
  row.time_forward = slowest[1];
  row.time_backward = slowest[2];
  row.time_communication_exposed = slowest[3];
  recorder_.steps.push_back(row);
}

void Trainer::evaluate(std::uint64_t steps_done) {
  std::array<double, 1> loss{0.0};
  for (std::size_t index = 0; index < evaluation_batches_; ++index) {
    sampler_->held_out(index, place_, batch_);
    loss[0] += engine_->evaluate({batch_.sequences, batch_.length, batch_.tokens, batch_.targets});
  }
  context_.control().all_reduce_sum(loss);
  const double mean = loss[0] / static_cast<double>(evaluation_batches_ * place_.world_size);
  recorder_.evaluations.push_back(
      {steps_done, mean, mean / std::numbers::ln2, evaluation_batches_});
  progress_.report(recorder_.evaluations.back());
}

std::string Trainer::write_trace(app::GpuSampling& sampling) {
  trace::TraceData data = collect(config_, context_, recorder_, *engine_, *model_, *source_);
  sampling.finish(data);
  std::string verdict = data.verdict;
  context_.agree_on([&] {
    if (!context_.is_root()) return;
    const trace::Document document = trace::describe(data);
    trace::write_hdf5(document, context_.trace_path());
    if (context_.json) trace::write_json(trace::to_json(document), *context_.json);
  });
  return verdict;
}

}  // namespace zeropp::train
