#include "apps/converge/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "apps/converge/levels.hpp"
#include "apps/converge/quadratic_bound.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/base/sha256.hpp"
#include "lib/base/statistics.hpp"
#include "lib/model/registry.hpp"
#include "lib/train/session.hpp"
#include "lib/train/verdict.hpp"

namespace zeropp::converge {

namespace {

/// Number of skipped steps in a row that are no incident any more.
constexpr std::size_t kGivenUp = 20;
/// Distances of a quadratic that are kept.
constexpr std::size_t kDistances = 100;

bool has_given_up(const std::vector<trace::StepRow>& steps) {
  return steps.size() >= kGivenUp &&
         std::all_of(steps.end() - kGivenUp, steps.end(),
                     [](const trace::StepRow& row) { return row.skipped > 0; });
}

template <class Project>
std::uint64_t lower_median(const std::vector<trace::StepRow>& steps, Project project) {
  std::vector<std::uint64_t> values;
  values.reserve(steps.size());
  for (const trace::StepRow& row : steps) values.push_back(row.*project);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Mean of the steps that were taken among the last tenth; NaN where none was.
double final_train_loss(const std::vector<trace::StepRow>& steps) {
  const std::size_t tenth = std::max<std::size_t>(1, steps.size() / 10);
  double sum = 0;
  std::size_t taken = 0;
  for (std::size_t i = steps.size() - tenth; i < steps.size(); ++i) {
    if (steps[i].skipped > 0) continue;
    sum += steps[i].loss;
    ++taken;
  }
  return taken == 0 ? kNotANumber : sum / static_cast<double>(taken);
}

void add_steps(const std::vector<trace::StepRow>& steps, bool with_curve, RunRecord& record) {
  std::vector<double> times;
  for (const trace::StepRow& row : steps) {
    times.push_back(row.time);
    record.skipped += row.skipped;
    if (with_curve) record.curve.push_back({row.loss, row.grad_norm, row.skipped});
  }
  record.steps = steps.size();
  record.seconds_per_step = summarize(times).median;
  record.final_train_loss = final_train_loss(steps);
  record.bytes_inter_node = lower_median(steps, &trace::StepRow::bytes_inter_node);
  record.bytes_predicted_inter_node =
      lower_median(steps, &trace::StepRow::bytes_predicted_inter_node);
}

void add_verdict(trace::Recorder& recorder, RunRecord& record) {
  const std::optional<std::string> bytes = train::wrong_bytes(recorder);
  const std::optional<std::string> diverged = train::divergence(recorder);
  record.diverged = !bytes && diverged;
  record.verdict = bytes ? "INVALID: " + *bytes : diverged ? "INVALID: " + *diverged : "VALID";
}

/// A session with what its level watches.
class Run {
 public:
  Run(const Setting& setting, const RunConfig& run, const train::Tokens& tokens,
      const app::Context& context)
      : config_(run.config),
        context_(context),
        session_(run.config, context, *tokens.source),
        keeps_curve_(setting.level != kQuadratic) {
    if (keeps_curve_) return;
    const std::size_t vocabulary =
        model::effective_vocab_size(config_.model, tokens.source->vocab_size());
    quadratic_.emplace(config_, context.topology(), session_.sampler(), vocabulary, kDistances);
  }

  /// The signal that ended it, or 0.
  int train() {
    if (quadratic_) quadratic_->begin(session_.engine());
    session_.run({.end_early = [&](std::uint64_t, int interrupt) { return end_early(interrupt); },
                  .stepped =
                      [&](std::uint64_t done, const trace::StepRow&) {
                        if (quadratic_) quadratic_->stepped(done, session_.engine());
                      },
                  .evaluated = {}});
    return signal_;
  }

  /// Adds what the session recorded to the record. Collective.
  void add_to(RunRecord& record) {
    trace::Recorder& recorder = session_.recorder();
    record.world_size = static_cast<std::uint64_t>(context_.topology().world_size);
    record.node_size = static_cast<std::uint64_t>(context_.topology().ranks_per_node);
    record.parameters_hash = session_.engine().parameters_hash();
    add_steps(recorder.steps, keeps_curve_, record);
    for (const trace::EvaluationRow& row : recorder.evaluations) {
      record.evaluations.push_back({row.step, row.loss});
    }
    if (!record.evaluations.empty() && record.evaluations.back().step == record.steps) {
      record.final_held_out_loss = record.evaluations.back().loss;
      record.bits_per_byte = recorder.evaluations.back().bits_per_byte;
      record.held_out_parts = recorder.evaluations.back().parts;
    }
    record.errors = recorder.errors;
    add_verdict(recorder, record);
    if (quadratic_) record.quadratic = quadratic_->summary();
  }

 private:
  bool end_early(int interrupt) {
    if (has_given_up(session_.recorder().steps)) {
      session_.recorder().gave_up = true;
      return true;
    }
    signal_ = interrupt;
    return signal_ != 0;
  }

  const config::TrainConfig& config_;
  const app::Context& context_;
  train::Session session_;
  bool keeps_curve_;
  std::optional<QuadraticBound> quadratic_;
  int signal_ = 0;
};

}  // namespace

std::string data_hash(const config::TrainConfig& config, const train::Tokens& tokens) {
  const std::size_t held_out =
      config.evaluation_interval == 0
          ? 0
          : config.evaluation_batches * config.train_micro_batch_size_per_gpu;
  return sha256_hex(fmt::format("{} seed {} length {} batch {} steps {} held out {} a rank",
                                tokens.fingerprint, config.seed, config.model.seq_length,
                                config.train_batch_size, config.train_steps, held_out));
}

RunResult run_one(const Setting& setting, const StudyRun& planned, const Team& team,
                  const train::Tokens& tokens, const app::Context& job) {
  RunResult result;
  team.with_context(planned.ranks, [&](const app::Context& context) {
    const auto run = configure(setting, planned.seed, job, context.topology());
    const auto start = std::chrono::steady_clock::now();
    Run training(setting, *run, tokens, context);
    result.interrupted = training.train();
    if (result.interrupted != 0) return;
    RunRecord record;
    training.add_to(record);
    if (context.topology().virtual_ranks && !context.is_root()) return;  // they share the result
    record.setting = setting.name;
    record.seed = planned.seed;
    record.data_hash = data_hash(run->config, tokens);
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.record = std::move(record);
  });
  return result;
}

}  // namespace zeropp::converge
