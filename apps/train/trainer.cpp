#include "apps/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "apps/train/collect.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/base/file.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/text.hpp"
#include "lib/config/precision.hpp"
#include "lib/trace/document.hpp"
#include "lib/train/verdict.hpp"
#include "lib/zero/plan/hpz_use.hpp"

namespace zeropp::train_app {

namespace {

/// Loads the tokens. Warns where the placement of ranks on GPUs costs speed.
train::Tokens prepare(const config::TrainConfig& config, const app::Context& context) {
  if (config.backend == Backend::cuda && !context.gpus.warning.empty())
    log::warn(context.gpus.warning);
  return train::load_tokens(config.data, context);
}

void warn_of_hpz(const config::TrainConfig& config, const app::Context& context,
                 const train::Session& session) {
  const std::string warning =
      zero::hpz_warning(config.zero, session.engine().plan(),
                        static_cast<std::size_t>(context.topology().ranks_per_node));
  if (!warning.empty()) log::warn(warning);
}

/// Warns of a run that learned nothing: in fp16 a loss scale that is too small does so.
void warn_of_no_gradient(const trace::Recorder& recorder) {
  const auto is_zero = [](const trace::StepRow& row) { return row.grad_norm == 0; };
  if (recorder.steps.empty() || !std::ranges::all_of(recorder.steps, is_zero)) return;
  log::warn(
      fmt::format("the norm of the gradients is 0 in all {} steps, so that they change nothing but "
                  "by weight decay: in fp16, raise fp16.loss_scale; else look at the data",
                  recorder.steps.size()));
}

void warn_of_precision(const app::Context& context) {
  const std::string line = config::open_precision_line(context.options());
  if (!line.empty()) log::warn(line);
}

}  // namespace

Trainer::Trainer(const config::TrainConfig& config, const app::Context& context)
    : config_(config),
      context_(context),
      outputs_(app::preflight_outputs(context)),
      tokens_(prepare(config, context)),
      checkpoints_(config, context, tokens_),
      session_(config, context, *tokens_.source),
      progress_(context.is_root(), config) {
  warn_of_hpz(config, context, session_);
  warn_of_precision(context);
}

ExitCode Trainer::run() {
  if (context_.is_root()) {
    standard_output::print("zpp_train on {}, {} over {}: ZeRO stage {}, {}, {}\n",
                           context_.topology().describe(), enum_name(*config_.backend),
                           enum_name(*config_.transport), config_.zero.stage, config_.model.name,
                           tokens_.source->description());
  }
  const std::uint64_t first = checkpoints_.load(session_);
  if (first > 0 && context_.is_root()) {
    standard_output::print("resuming after step {} of {}\n", first, config_.train_steps);
  }
  app::GpuSampling sampling(context_, *config_.backend, config_.gpu_sampling);
  session_.run({.end_early = [&](std::uint64_t done,
                                 int interrupt) { return end_early(done, first, interrupt); },
                .stepped =
                    [&](std::uint64_t done, const trace::StepRow& row) {
                      progress_.report(done, row);
                      warn_of_corruption();
                      if (session_.recorder().gave_up) {
                        checkpoints_.end_early(done, session_);
                      } else {
                        checkpoints_.stepped(done, session_);
                      }
                    },
                .evaluated = [&](const trace::EvaluationRow& row) { progress_.report(row); }},
               first);
  const std::string verdict = write_trace(sampling);
  if (context_.is_root()) {
    standard_output::print("{}  {}\n", verdict, context_.describe_trace());
  }
  const trace::Recorder& recorder = session_.recorder();
  const bool damaged = recorder.weights_damaged || !recorder.corruption.empty();
  if (recorder.gave_up && damaged && context_.is_root()) log::error(*train::divergence(recorder));
  warn_of_no_gradient(recorder);
  if (!trace::is_valid(verdict)) return ExitCode::check_failed;
  if (recorder.interrupted.empty()) return ExitCode::ok;
  log::warn(fmt::format("ended by {} after {} of {} steps{}: start again to {}",
                        recorder.interrupted, first + recorder.steps.size(), config_.train_steps,
                        context_.output ? ", which are in the trace" : "",
                        config_.checkpoint.save.empty() ? "run it whole" : "resume with --load"));
  return ExitCode::requeue;
}

/// Warns of a step that is damaged, where the run continues all the same.
void Trainer::warn_of_corruption() {
  const trace::Recorder& recorder = session_.recorder();
  if (!context_.is_root() || recorder.corruption.empty() || recorder.gave_up) return;
  log::warn(recorder.corruption);
}

/// Whether a signal (or 0) asks to end after `done` steps with a trace of these. Throws AgreedError
/// where there is nothing new to keep: before this run's first step, and after SIGINT.
bool Trainer::end_early(std::uint64_t done, std::uint64_t first, int signal) {
  if (signal == 0) return false;
  if (signal == SIGINT || done == first) {
    throw app::nothing_kept(signal, fmt::format("step {} of {}", done, config_.train_steps));
  }
  session_.recorder().interrupted = app::name_of_interrupt(signal);
  checkpoints_.end_early(done, session_);
  return true;
}

void Trainer::keep_earlier_trace() {
  const std::uint64_t first = session_.recorder().first_step;
  std::error_code error;
  if (first == 0 || !context_.output) return;
  const std::filesystem::path path = *context_.trace_path();
  if (!std::filesystem::exists(path, error)) return;
  // Earlier traces are numbered: several runs may resume from the same checkpoint, and none loses
  // its trace.
  const auto name = [&](int number) {
    return path.parent_path() / fmt::format("{}.before-{:09}{}{}", path.stem().string(), first,
                                            number == 0 ? "" : fmt::format("-{}", number),
                                            path.extension().string());
  };
  int number = 0;
  while (std::filesystem::exists(name(number), error)) ++number;
  const auto kept = name(number);
  if (std::rename(path.c_str(), kept.c_str()) != 0) fail_io("rename to", kept, errno);
}

std::string Trainer::write_trace(app::GpuSampling& sampling) {
  trace::TraceData data = collect(config_, context_, session_, *tokens_.source);
  sampling.finish(data);
  std::string verdict = data.verdict;
  context_.agree_on([&] {
    if (!context_.is_root()) return;
    const trace::Document document = trace::describe(data);
    keep_earlier_trace();
    app::write_outputs(context_, outputs_, document);
  });
  return verdict;
}

}  // namespace zeropp::train_app
