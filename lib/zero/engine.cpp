#include "lib/zero/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "lib/base/defect.hpp"
#include "lib/zero/draw_keys.hpp"
#include "lib/zero/engine_memory.hpp"

namespace zeropp::zero {

namespace {

using Category = trace::Timers::Category;

/// Ranks of this host, as far as the topology tells: declared nodes may all be on it.
int neighbours(const comm::Groups& groups) {
  const comm::Topology& topology = groups.topology;
  return topology.emulated || !topology.uniform() ? topology.world_size : topology.ranks_per_node;
}

/// By what the sum over ranks is divided.
double averaged_over(const comm::Groups& groups) {
  const auto ranks = static_cast<double>(groups.world->size());
  return defect::planted(defect::Kind::gradient_scaled)
             ? ranks / static_cast<double>(groups.topology.ranks_per_node)
             : ranks;
}

/// Planted by tests, in host memory.
void plant_nan(std::span<const View> gradients) {
  *gradients.front().as<float>() = std::numeric_limits<float>::quiet_NaN();
}

void drop_non_finite(std::span<const View> gradients) {
  for (const View& each : gradients) {
    float* const values = each.as<float>();
    std::replace_if(
        values, values + each.count, [](float v) { return !std::isfinite(v); }, 0.0F);
  }
}

}  // namespace

Engine::Engine(const Options& options, const optim::Options& optimizer, UnitModel& model,
               comm::Groups& groups, comm::Groups& reduce_groups, comm::Control& control,
               const Device& device, trace::Recorder& recorder)
    : options_(options),
      preset_(stage_preset(options.stage)),
      model_(model),
      groups_(groups),
      reduce_groups_(reduce_groups),
      control_(control),
      device_(device),
      recorder_(recorder),
      mean_(static_cast<float>(
          1.0 / (averaged_over(groups) * static_cast<double>(options.accumulation_steps)))),
      loss_scale_(options.compute == Dtype::fp16 ? options.loss_scale
                                                 : LossScaleOptions{.fixed = 1}),
      streams_{device.make_stream("compute"),
               device.make_stream("gather", StreamPriority::high),
               device.make_stream("gather end", StreamPriority::high),
               device.make_stream("reduce", StreamPriority::high),
               device.make_stream("reduce end", StreamPriority::high),
               device.make_stream("secondary"),
               device.make_stream("update")},
      plans_(options, model.units(), model.layers(), groups, reduce_groups, recorder, device),
      arena_(groups.make_memory(plans_.step.arena_bytes())),
      compute_shards_(make_compute_shards(options, plans_.units, device)),
      resident_weights_(make_resident_weights(options, plans_.units, device)),
      local_gradients_(make_local_gradients(options, plans_.units, device)),
      gradient_shards_(make_gradient_shards(options, plans_.units, device)),
      norm_(own_gradients(), plans_.units, device),
      optimizer_(model.units(), plans_.units, optimizer_arrays(), preset_.shard_optimizer,
                 static_cast<std::size_t>(groups.sharding().world->rank()), options.seed, optimizer,
                 device, device.memory, streams_.front().handle()),
      loss_(sizeof(double), device.staging()),
      weight_views_(plans_.units.size()),
      gradient_views_(plans_.units.size()),
      gradient_is_fresh_(plans_.units.size()),
      updated_(plans_.units.size()) {
  if (options_.hpz_partition_size > 1) {
    secondary_.emplace(plans_.units, options_.compute,
                       static_cast<std::size_t>(groups_.secondary->rank()), device_);
  }
  const std::vector<bool> filed = weights_on_file(plans_.units, options_.offload_param);
  if (std::ranges::find(filed, true) != filed.end()) {
    std::vector<std::size_t> counts(plans_.units.size());
    std::ranges::transform(plans_.units, counts.begin(), &UnitPartition::shard);
    filed_.emplace(offload_pieces(counts, options_.offload_optimizer), filed, options_, device_);
  }
  if (options_.offload_optimizer.enabled()) {
    std::vector<View> weights;
    for (std::size_t u = 0; u < plans_.units.size(); ++u) weights.push_back(follower(u));
    offloaded_.emplace(model.units(), plans_.units, own_gradients(), weights,
                       filed_ ? &*filed_ : nullptr, preset_.shard_optimizer,
                       static_cast<std::size_t>(groups.sharding().world->rank()), options_,
                       optimizer, device_, Workers::on_this_host(neighbours(groups)));
  }
  if (options_.measure_errors > 0) {
    errors_.emplace(options_, plans_.codecs, model_.units(), plans_.units,
                    plans_.gradients.buckets(), reduce_groups, control_, device_, recorder_);
  }
  if (options_.adaptive_bits.values != "none") {
    adaptive_.emplace(options_, plans_.units, width_costs(reduce_groups), control_, device_,
                      recorder_);
  }
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    if (!preset_.shard_parameters || plans_.units[u].persistent)
      weight_views_[u] = resident_weights_[u].view(plans_.units[u].padded, options_.compute);
    if (!preset_.shard_gradients)
      gradient_views_[u] = local_gradients_[u].view(plans_.units[u].padded, Dtype::fp32);
    make_weights(u);
  }
  settle_files();
  record_files();
  recorder_.searches_loss_scale = loss_scale_.is_dynamic();
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    trace::UnitRow row{model_.units()[u].name, plans_.units[u].parameters, plans_.units[u].flat,
                       plans_.units[u].padded, plans_.units[u].shard};
    for (const Op& op : plans_.step.step.front().ops) {
      const bool gathers = op.kind == OpKind::gather || op.kind == OpKind::gather_secondary;
      if (!gathers || op.index != u || op.micro_step > 0) continue;
      ++(op.backward_phase ? row.gathers_backward : row.gathers_forward);
    }
    recorder_.units.push_back(row);
  }
}

void Engine::gather_initial() {
  if (!std::exchange(gathered_initial_, true))
    execute(plans_.step.initial, Mode::initial, step_clock_);
}

StepResult Engine::step(const std::function<Batch(std::size_t)>& batch, UpdateTimes* before) {
  apply_codecs();
  gather_initial();
  measured_ = errors_ && errors_->begin_step(steps_begun_);
  if (measured_) measure_weights();
  const comm::Bytes sent_before = sent();
  const AsyncFileTotals filed_before = transfers();
  step_clock_.begin();
  ++steps_begun_;
  batch_ = &batch;

  StepResult result;
  result.loss_scale = loss_scale_.value();
  result.learning_rate = optimizer_.learning_rate(steps_taken_ + 1);
  const Schedule& schedule = plans_.step.step.at(secondary_version_ == version_ ? 1 : 0);
  execute(schedule, Mode::training, step_clock_);
  result.predicted = volume(schedule, plans_.step.volumes);
  if (defect::planted(defect::Kind::nan_planted) && steps_taken_ == 2 &&
      !recorder_.counters.contains("nonfinite_steps"))
    plant_nan(own_gradients());
  if (defect::planted(defect::Kind::nan_dropped)) drop_non_finite(own_gradients());
  {
    const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
    norm_.start(mean(), stream(StreamId::compute));
  }
  join({StreamId::update});
  result.loss = wait_for_loss() / static_cast<double>(options_.accumulation_steps);
  if (before != nullptr) *before = read_update_times();
  update_clock_.begin();
  offload_seconds_ = 0;

  const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
  result.grad_norm = global_norm();
  const StepClock::Times times = step_clock_.times();
  result.time_forward = times.forward;
  result.time_backward = times.backward;
  result.time_exposed = times.exposed;
  result.time_gather = times.gather;
  result.time_reduce = times.reduce;
  result.skipped = !std::isfinite(result.grad_norm);
  if (measured_ && !result.skipped) measure_gradients();
  if (result.skipped) {
    ++recorder_.counters["nonfinite_steps"];
    plans_.gradients.errors().discard();
  } else {
    clip_ = options_.gradient_clipping > 0 && result.grad_norm > options_.gradient_clipping
                ? options_.gradient_clipping / result.grad_norm
                : 1.0;
    ++steps_taken_;
    if (offloaded_) offloaded_->begin(stream(StreamId::compute));
    execute(plans_.step.update, Mode::training, update_clock_);
    settle_files();
    result.predicted += volume(plans_.step.update, plans_.step.volumes);
    plans_.gradients.errors().commit(steps_taken_, stream(StreamId::compute).handle());
    ++version_;
    choose_widths();
  }
  LossScale next = loss_scale_;
  result.exhausted = !next.update(result.skipped);
  set_loss_scale(next.state());
  result.sent = sent() - sent_before;
  count_transfers(filed_before);
  return result;
}

UpdateTimes Engine::read_update_times() const {
  const StepClock::Times times = update_clock_.times();
  return {.optimizer = times.update, .offload = offload_seconds_, .gather = times.gather};
}

UpdateTimes Engine::update_times() {
  join({StreamId::update});
  stream(StreamId::compute).synchronize();
  return read_update_times();
}

double Engine::evaluate(const Batch& batch) {
  step_clock_.begin();
  apply_codecs();
  gather_initial();
  const std::function<Batch(std::size_t)> provider = [&](std::size_t) { return batch; };
  batch_ = &provider;
  execute(plans_.step.evaluation.at(secondary_version_ == version_ ? 1 : 0), Mode::evaluation,
          step_clock_);
  return wait_for_loss();
}

void Engine::measure_weights() {
  if (!preset_.shard_parameters) return;
  join({StreamId::update});
  std::vector<ConstView> shards;
  std::vector<std::uint64_t> keys;
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    shards.push_back(compute_shard(u));
    keys.push_back(weight_draws(options_.seed, version_, u));
  }
  errors_->weights(shards, keys, choice_.weights, stream(StreamId::compute));
}

void Engine::measure_gradients() {
  const auto rank = static_cast<std::size_t>(groups_.world->rank());
  std::vector<ConstView> shards;
  for (const ConstView gradient : own_gradients()) {
    const std::size_t shard = plans_.units[shards.size()].shard;
    shards.emplace_back(gradient.part(preset_.shard_optimizer ? 0 : rank * shard, shard));
  }
  errors_->gradients(shards, stream(StreamId::compute));
}

float Engine::mean() const {
  double scale = loss_scale_.value();
  if (defect::planted(defect::Kind::loss_scale_late)) {
    LossScale next = loss_scale_;
    if (next.update(/*overflow=*/false)) scale = next.value();
  }
  return static_cast<float>(static_cast<double>(mean_) / scale);
}

void Engine::set_loss_scale(const LossScale::State& state) {
  const double factor = state.scale / loss_scale_.value();
  loss_scale_.restore(state);
  if (factor == 1.0) return;
  plans_.gradients.errors().rescale(static_cast<float>(factor), stream(StreamId::compute).handle());
}

std::vector<NamedState> Engine::error_feedback() const {
  stream(StreamId::compute).synchronize();  // a reset or another scale may be under way
  return plans_.gradients.errors().state();
}

/// The host's one wait for a whole step, where a hang is noticed.
double Engine::wait_for_loss() {
  auto* const loss = reinterpret_cast<double*>(loss_.data());
  const Stream& compute = stream(StreamId::compute);
  model_.take_loss(loss, compute.handle());
  compute.synchronize();
  return *loss;
}

std::vector<View> Engine::own_gradients() const {
  std::vector<View> gradients;
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    gradients.push_back(preset_.shard_optimizer
                            ? gradient_shards_[u].view(plans_.units[u].shard, Dtype::fp32)
                            : local_gradients_[u].view(plans_.units[u].padded, Dtype::fp32));
  }
  return gradients;
}

std::vector<UnitArrays> Engine::optimizer_arrays() const {
  std::vector<UnitArrays> arrays;
  for (const View& gradient : own_gradients()) {
    const std::size_t first = offloaded_elements(gradient.count, options_.offload_optimizer);
    const std::size_t count = gradient.count - first;
    const bool narrow = options_.compute != Dtype::fp32;
    const View weights = narrow && count > 0 ? follower(arrays.size()).part(first, count) : View{};
    arrays.push_back({{first, count}, {{gradient.part(first, count), weights}}});
  }
  return arrays;
}

double Engine::global_norm() const {
  std::vector<double> partial = norm_.squares();
  if (preset_.shard_optimizer) partial = control_.all_gather(partial);
  double total = 0;
  // The first shard group has all shards; the others have the same.
  for (std::size_t shard = 0; shard < world_size(); ++shard) total += partial[shard];
  return std::sqrt(total);
}

void Engine::update(const Op& op) {
  const Stream& on = stream(op.stream);
  optimizer_.update(op.index, steps_taken_, mean(), clip_, on.handle());
  if (options_.compute == Dtype::fp32) cut(op.index, on);
  if (offloaded_) {
    const auto begin = std::chrono::steady_clock::now();
    offloaded_->update(op.index, steps_taken_, mean(), clip_, on);
    offload_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (defect::planted(defect::Kind::bf16_as_fp16)) {
    const View weights = follower(op.index);
    device_.memory_ops->convert({weights.data, weights.count, Dtype::fp16, weights.kind}, weights,
                                on.handle());
  }
  on.record(updated_[op.index]);
}

ConstView Engine::compute_shard(std::size_t unit) const {
  if (!compute_shards_.empty())
    return compute_shards_[unit].view(plans_.units[unit].shard, options_.compute);
  return offloaded_ ? offloaded_->shard().master(unit) : optimizer_.master(unit);
}

/// The weights in the compute dtype that follow the master: the own shard, or everything at stage
/// 0. Empty where the master itself serves.
View Engine::follower(std::size_t unit) const {
  if (!preset_.shard_optimizer)
    return resident_weights_[unit].view(plans_.units[unit].padded, options_.compute);
  if (!compute_shards_.empty() && compute_shards_[unit].bytes() > 0)
    return compute_shards_[unit].view(plans_.units[unit].shard, options_.compute);
  return {};
}

void Engine::cut(std::size_t unit, const Stream& on) {
  const View weights = follower(unit);
  const Extent& here = optimizer_.extent(unit);
  if (weights.count == 0 || here.count == 0) return;
  device_.memory_ops->convert(optimizer_.master(unit), weights.part(here.begin, here.count),
                              on.handle());
}

void Engine::make_weights(std::size_t unit) {
  const Stream& compute = stream(StreamId::compute);
  cut(unit, compute);
  if (offloaded_) offloaded_->publish(unit, compute);
}

comm::Bytes Engine::sent() const {
  comm::Bytes total;
  for (const trace::CollectiveRow& row : recorder_.collectives) {
    total += {row.wire_bytes_intra, row.wire_bytes_inter};
  }
  return total;
}

}  // namespace zeropp::zero
