#include "lib/train/session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <numbers>
#include <thread>
#include <utility>
#include <vector>

#include "lib/app/interrupt.hpp"
#include "lib/base/defect.hpp"
#include "lib/collective/collective.hpp"
#include "lib/model/registry.hpp"
#include "lib/train/memory_need.hpp"
#include "lib/train/step_record.hpp"

namespace zeropp::train {

using Category = trace::Timers::Category;

namespace {

using Clock = std::chrono::steady_clock;

/// Parts of the held-out data whose losses are kept.
constexpr std::size_t kParts = 16;

/// Pads a step for a test of the regression gate, which has to know times on a busy machine.
void pad(Clock::time_point start) {
  if (!defect::planted(defect::Kind::step_padded)) return;
  constexpr std::chrono::milliseconds step{200};
  constexpr std::chrono::milliseconds longer{20};
  std::this_thread::sleep_until(start + step +
                                longer * int{defect::planted(defect::Kind::step_slower)});
}

StepRecord own_record(const zero::StepResult& result, const zero::UpdateTimes& before,
                      double seconds) {
  return {.loss = result.loss,
          .sent = result.sent,
          .predicted = result.predicted,
          .interrupt = app::interrupted(),
          .times = {.step = seconds,
                    .forward = result.time_forward,
                    .backward = result.time_backward,
                    .exposed = result.time_exposed,
                    .gather = result.time_gather,
                    .reduce = result.time_reduce,
                    .agreement = result.time_agreement,
                    .optimizer_before = before.optimizer,
                    .offload_before = before.offload,
                    .gather_before = before.gather,
                    .agreement_before = before.agreement}};
}

}  // namespace

Session::Session(const config::TrainConfig& config, const app::Context& context,
                 const data::TokenSource& tokens)
    : config_(config),
      context_(context),
      data_rank_{static_cast<std::size_t>(context.control().rank()),
                 static_cast<std::size_t>(context.control().size())} {
  device_ = context_.own_device(*config_.backend);
  const MemoryNeed need(config_, context_.topology(), tokens.vocab_size(),
                        config_.backend == Backend::cuda
                            ? static_cast<std::size_t>(context_.gpus.index[data_rank_.rank])
                            : 0);
  context_.agree_on([&] { need.enforce_limit(); });
  make_groups();
  context_.agree_on([&] {
    sampler_ = std::make_unique<data::Sampler>(tokens, config_.seed, config_.model.seq_length,
                                               config_.train_micro_batch_size_per_gpu);
    need.explain([&] {
      model_ =
          model::make_model(config_.model, {.micro_batch = config_.train_micro_batch_size_per_gpu,
                                            .vocab_size = tokens.vocab_size(),
                                            .device = device_,
                                            .compute = config_.zero.compute,
                                            .deterministic = config_.zero.deterministic,
                                            .autotune = config_.autotune_gemm,
                                            .timers = recorder_.timers});
    });
    if (config_.evaluation_interval > 0) {
      evaluation_batches_ =
          std::min(config_.evaluation_batches, sampler_->held_out_batches(data_rank_.world_size));
    }
  });
  context_.agree_on([&] {
    need.explain([&] {
      engine_ = std::make_unique<zero::Engine>(
          config_.zero, config_.optimizer, *model_,
          zero::EngineGroups{groups_, reduce_groups_, context_.control()}, device_, recorder_);
    });
  });
  engine_->prepare();  // which communicates, and agrees by itself
}

void Session::make_groups() {
  comm::GroupOptions options{.device = device_,
                             .transport = *config_.transport,
                             .rail_lanes = config_.rail_lanes,
                             .copy_engines = config_.copy_engines == comm::CopyEngines::on};
  // Starting a group takes NCCL a good part of a second: those that nothing runs on are not made.
  const bool gather_levels =
      collective::find_all_gather(config_.zero.all_gather_algorithm).traits.hierarchical;
  const bool gathers_sums = config_.zero.stage == 0;
  options.shard_size = static_cast<int>(config_.zero.shard_group_size);
  const comm::Topology sharding =
      options.shard_size > 0 ? comm::topology_of_group(context_.topology(), options.shard_size)
                             : context_.topology();
  // Reductions in two hops take one, over all ranks, where there is one level.
  const bool has_levels = sharding.node_count > 1 && sharding.ranks_per_node > 1;
  options.levels =
      (has_levels && collective::find_reduce_scatter(config_.zero.reduce_scatter_algorithm)
                         .traits.hierarchical) ||
      (gathers_sums && gather_levels);
  reduce_groups_ = context_.world().make_groups(options);
  options.levels = gather_levels || config_.zero.exchanges_differences();
  if (config_.zero.has_secondary())
    options.secondary_size = static_cast<int>(config_.zero.hpz_partition_size);
  groups_ = context_.world().make_groups(options);
}

void Session::run(const Watch& watch, std::uint64_t first) {
  const trace::Timers::Scope loop(recorder_.timers, Category::other);
  const std::size_t interval = config_.evaluation_interval;
  recorder_.first_step = first;
  if (interval > 0) evaluate(first, watch);
  interrupt_ = app::more_pressing(interrupt_, app::agreed_interrupt(context_.control()));
  std::uint64_t done = first;
  while (done < config_.train_steps) {
    if (watch.end_early && watch.end_early(done, interrupt_)) break;
    const bool goes_on = step(done);
    ++done;
    if (watch.stepped) watch.stepped(done, recorder_.steps.back());
    if (!goes_on) break;
    const bool last = done == config_.train_steps;
    if (interval > 0 && (last || done % interval == 0)) {
      evaluate(done, watch);
      interrupt_ = app::more_pressing(interrupt_, app::agreed_interrupt(context_.control()));
    }
  }
  const zero::UpdateTimes own = engine_->update_times();
  std::array<double, 3> slowest{own.optimizer, own.offload, own.gather};
  context_.control().all_reduce_max(slowest);
  keep({slowest[0], slowest[1], slowest[2]});
}

bool Session::step(std::uint64_t step) {
  const auto start = Clock::now();
  zero::UpdateTimes before;
  const zero::StepResult result = engine_->step(
      [&](std::size_t micro_step) {
        const trace::Timers::Scope scope(recorder_.timers, Category::data);
        sampler_->train(step, micro_step, data_rank_, batch_);
        return zero::Batch{batch_.sequences, batch_.length, batch_.tokens, batch_.targets};
      },
      &before);
  pad(start);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const StepRecord all = [&] {
    const trace::Timers::Scope scope(recorder_.timers, Category::communication);
    return over_ranks(own_record(result, before, seconds), context_.control());
  }();
  interrupt_ = all.interrupt;
  keep({all.times.optimizer_before, all.times.offload_before, all.times.gather_before,
        all.times.agreement_before});
  trace::StepRow row;
  row.loss = all.loss / static_cast<double>(data_rank_.world_size);
  row.grad_norm = result.grad_norm;
  row.time = all.times.step;
  row.tokens_per_second =
      static_cast<double>(config_.train_batch_size * config_.model.seq_length) / row.time;
  row.bytes_intra_node = all.sent.intra;
  row.bytes_inter_node = all.sent.inter;
  row.bytes_predicted_intra_node = all.predicted.intra;
  row.bytes_predicted_inter_node = all.predicted.inter;
  row.learning_rate = result.learning_rate;
  row.loss_scale = result.loss_scale;
  row.skipped = result.skipped ? 1 : 0;
  row.time_forward = all.times.forward;
  row.time_backward = all.times.backward;
  row.time_communication_exposed = all.times.exposed;
  row.time_gather = all.times.gather;
  row.time_reduce = all.times.reduce;
  row.time_agreement = all.times.agreement;
  recorder_.steps.push_back(row);
  recorder_.weights_damaged = result.damaged;
  recorder_.corruption = result.corruption;
  recorder_.gave_up =
      result.exhausted || result.damaged ||
      (!result.corruption.empty() && config_.zero.verify_action == zero::VerifyAction::end);
  return !recorder_.gave_up;
}

void Session::keep(const zero::UpdateTimes& times) {
  if (recorder_.steps.empty()) return;
  trace::StepRow& row = recorder_.steps.back();
  row.time_optimizer = times.optimizer;
  row.time_offload_wait = times.offload;
  row.time_gather += times.gather;
  row.time_agreement += times.agreement;
}

void Session::evaluate(std::uint64_t steps_done, const Watch& watch) {
  const std::size_t parts = std::min(kParts, evaluation_batches_);
  std::vector<double> sums(1 + parts, 0.0);  // of all batches, then of each part
  std::vector<std::size_t> batches(parts, 0);
  const bool ends_early = watch.end_early && steps_done < config_.train_steps;
  for (std::size_t index = 0; index < evaluation_batches_; ++index) {
    // An evaluation may take many times as long as a step, and a batch system does not wait.
    if (ends_early && interrupt_ == 0) interrupt_ = app::agreed_interrupt(context_.control());
    if (ends_early && interrupt_ != 0) {
      recorder_.evaluation_cut_off = index;
      return;
    }
    sampler_->held_out(index, data_rank_, batch_);
    const double loss =
        engine_->evaluate({batch_.sequences, batch_.length, batch_.tokens, batch_.targets});
    // Micro-batches of a part lie side by side: the same tokens at any number of ranks where the
    // batch of all is the same.
    const std::size_t part = index * parts / evaluation_batches_;
    sums[0] += loss;
    sums[1 + part] += loss;
    ++batches[part];
  }
  context_.control().all_reduce_sum(sums);
  const double mean = sums[0] / static_cast<double>(evaluation_batches_ * data_rank_.world_size);
  std::vector<double> means;
  for (std::size_t part = 0; part < parts; ++part) {
    means.push_back(sums[1 + part] / static_cast<double>(batches[part] * data_rank_.world_size));
  }
  // The quadratic's loss is no likelihood, so it has no bits a byte.
  const bool of_bytes =
      data::tokens_are_bytes(config_.data) && model::is_transformer(config_.model);
  const double bits =
      of_bytes ? mean / std::numbers::ln2 : std::numeric_limits<double>::quiet_NaN();
  recorder_.evaluations.push_back({steps_done, mean, bits, evaluation_batches_, std::move(means)});
  if (watch.evaluated) watch.evaluated(recorder_.evaluations.back());
}

}  // namespace zeropp::train
