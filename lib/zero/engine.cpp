#include "lib/zero/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/base/sha256.hpp"

namespace zeropp::zero {

namespace {

using Category = trace::Timers::Category;

std::vector<Buffer> buffers(const std::vector<UnitPartition>& units,
                            std::size_t UnitPartition::*count, Dtype dtype, MemoryKind kind,
                            bool wanted) {
  std::vector<Buffer> made;
  if (!wanted) return made;
  made.reserve(units.size());
  for (const UnitPartition& unit : units) made.push_back(Buffer::zeros(unit.*count, dtype, kind));
  return made;
}

std::size_t bytes_of(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return total;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Engine::Engine(const Options& options, const optim::AdamWOptions& optimizer, UnitModel& model,
               comm::Groups& groups, comm::Control& control, const Device& device,
               trace::Recorder& recorder)
    : options_(options),
      preset_(stage_preset(options.stage)),
      model_(model),
      groups_(groups),
      control_(control),
      device_(device),
      recorder_(recorder),
      units_(partition_units(model.units(), static_cast<std::size_t>(groups.world->size()),
                             options.hpz_partition_size, options.compute)),
      optimizer_(model.units(), units_, preset_.shard_optimizer,
                 static_cast<std::size_t>(groups.world->rank()), options.seed, optimizer, device),
      weights_(options, units_, groups, recorder, device),
      gradients_(options, units_,
                 make_buckets(units_, gradient_order(model.layers(), units_.size()),
                              static_cast<std::size_t>(groups.world->size()),
                              options.reduce_bucket_size, bucket_quantum(options)),
                 groups, recorder, device),
      compute_shards_(buffers(units_, &UnitPartition::shard, options.compute, device.memory,
                              preset_.shard_optimizer && options.compute != Dtype::fp32)),
      resident_weights_(buffers(units_, &UnitPartition::padded, options.compute, device.memory,
                                !preset_.shard_parameters)),
      local_gradients_(buffers(units_, &UnitPartition::padded, Dtype::fp32, device.memory,
                               !preset_.shard_gradients)),
      gradient_shards_(buffers(units_, &UnitPartition::shard, Dtype::fp32, device.memory,
                               preset_.shard_optimizer)),
      weight_views_(units_.size()),
      gradient_views_(units_.size()) {
  if (options_.hpz_partition_size > 1) {
    secondary_.emplace(units_, options_.compute,
                       static_cast<std::size_t>(groups_.secondary->rank()), device_);
  }
  input_.units = units_;
  input_.unit_memory.resize(units_.size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    input_.unit_memory[u].weights = units_[u].padded * size_of(options_.compute);
    input_.unit_memory[u].gradients = units_[u].padded * sizeof(float);
  }
  weights_.add_memory(input_.unit_memory);
  input_.layers = model_.layers();
  input_.buckets = gradients_.buckets();
  input_.bucket_memory = gradients_.memory();
  input_.preset = preset_;
  input_.hpz = secondary_.has_value();
  input_.micro_steps = options_.accumulation_steps;
  input_.prefetch_elements = options_.prefetch_bucket_size;
  input_.overlap = options_.overlap_comm;
  for (const bool valid : {false, true}) {
    step_schedules_.at(valid ? 1 : 0) = make_step_schedule(input_, valid);
    evaluation_schedules_.at(valid ? 1 : 0) = make_evaluation_schedule(input_, valid);
  }
  update_schedule_ = make_update_schedule(input_);
  weights_.add_volumes(volumes_);
  gradients_.add_volumes(volumes_);
  std::size_t arena_bytes = update_schedule_.arena_bytes;
  for (const auto& pair : {std::cref(step_schedules_), std::cref(evaluation_schedules_)}) {
    for (const Schedule& schedule : pair.get())
      arena_bytes = std::max(arena_bytes, schedule.arena_bytes);
  }
  arena_ = Buffer(arena_bytes, device_.memory);

  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!preset_.shard_parameters)
      weight_views_[u] = resident_weights_[u].view(units_[u].padded, options_.compute);
    if (!preset_.shard_gradients)
      gradient_views_[u] = local_gradients_[u].view(units_[u].padded, Dtype::fp32);
    cut(u);
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    trace::UnitRow row{model_.units()[u].name, units_[u].parameters, units_[u].flat,
                       units_[u].padded, units_[u].shard};
    for (const Layer& layer : model_.layers()) {
      if (preset_.shard_parameters)
        row.gathers_forward += std::count(layer.units.begin(), layer.units.end(), u);
    }
    row.gathers_backward = row.gathers_forward;
    recorder_.units.push_back(row);
  }
}

void Engine::gather_initial() {
  if (std::exchange(gathered_initial_, true)) return;
  for (const Op& op : update_schedule_.ops) {
    if (op.kind == OpKind::refresh) refresh(op, Phase::initial);
  }
}

StepResult Engine::step(const std::function<Batch(std::size_t)>& batch) {
  gather_initial();
  const comm::Bytes sent_before = sent();
  time_forward_ = 0;
  time_backward_ = 0;
  batch_ = &batch;
  for (std::size_t u = 0; u < gradient_shards_.size(); ++u) {
    device_.memory_ops->clear(gradient_shards_[u].view(units_[u].shard, Dtype::fp32),
                              stream(StreamId::compute).handle());
  }

  StepResult result;
  const Schedule& schedule = step_schedules_.at(secondary_version_ == version_ ? 1 : 0);
  execute(schedule, false);
  result.predicted = volume(schedule, volumes_);
  result.loss = model_.take_loss() / static_cast<double>(options_.accumulation_steps);
  result.time_forward = time_forward_;
  result.time_backward = time_backward_;

  const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
  result.grad_norm = finish_norm();
  result.skipped = !std::isfinite(result.grad_norm);
  if (result.skipped) {
    ++recorder_.counters["nonfinite_steps"];
  } else {
    clip_ = options_.gradient_clipping > 0 && result.grad_norm > options_.gradient_clipping
                ? options_.gradient_clipping / result.grad_norm
                : 1.0;
    ++steps_taken_;
    execute(update_schedule_, false);
    result.predicted += volume(update_schedule_, volumes_);
    ++version_;
  }
  result.sent = sent() - sent_before;
  return result;
}

double Engine::evaluate(const Batch& batch) {
  gather_initial();
  const std::function<Batch(std::size_t)> provider = [&](std::size_t) { return batch; };
  batch_ = &provider;
  execute(evaluation_schedules_.at(secondary_version_ == version_ ? 1 : 0), true);
  return model_.take_loss();
}

void Engine::execute(const Schedule& schedule, bool evaluation) {
  evaluating_ = evaluation;
  events_.assign(schedule.ops.size(), {});
  pending_.assign(schedule.ops.size(), {});
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    const auto start = std::chrono::steady_clock::now();
    for (const std::size_t earlier : op.waits_on) complete(earlier, op.stream);
    run(op, i);
    events_[i].record(stream(op.stream));
    if (!options_.overlap_comm) complete(i, StreamId::compute);
    (op.backward_phase ? time_backward_ : time_forward_) += seconds_since(start);
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) complete(i, StreamId::compute);
}

void Engine::complete(std::size_t op, StreamId waiting) {
  if (pending_[op]) std::exchange(pending_[op], {})();
  events_[op].wait_on(stream(waiting));
}

void Engine::run(const Op& op, std::size_t position) {
  const View sum =
      op.kind == OpKind::reduce || op.kind == OpKind::accumulate || op.kind == OpKind::gather_sum
          ? arena_.view(input_.buckets[op.index].count(), Dtype::fp32, op.result)
          : View{};
  switch (op.kind) {
    case OpKind::gather:
      start_gather(op, position);
      break;
    case OpKind::gather_secondary:
      start_secondary_gather(op, position);
      break;
    case OpKind::keep_secondary:
      secondary_->keep(op.index, weight_views_[op.index], version_, stream(op.stream).handle());
      secondary_version_ = version_;
      break;
    case OpKind::forward:
      forward(op);
      break;
    case OpKind::backward:
      backward(op);
      break;
    case OpKind::clear_gradients: {
      View& gradients = gradient_views_[op.index];
      if (preset_.shard_gradients)
        gradients = arena_.view(units_[op.index].padded, Dtype::fp32, op.result);
      device_.memory_ops->clear(gradients, stream(op.stream).handle());
      break;
    }
    case OpKind::reduce:
      gradients_.start(op.index, gradient_views_, sum, workspace(op), stream(op.stream).handle());
      pending_[position] = [this, bucket = op.index] { gradients_.finish(bucket); };
      break;
    case OpKind::accumulate: {
      if (!preset_.shard_optimizer) break;  // stage 0: the sum is gathered instead
      const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
      std::size_t at = 0;
      for (const Segment& segment : input_.buckets[op.index].segments) {
        const View shard =
            gradient_shards_[segment.unit].view(units_[segment.unit].shard, Dtype::fp32);
        device_.optim->add(segment.count, sum.part(at, segment.count).as<float>(),
                           shard.part(segment.offset, segment.count).as<float>(),
                           stream(op.stream).handle());
        at += segment.count;
      }
      break;
    }
    case OpKind::gather_sum:
      gradients_.gather_sum(op.index, sum, gradient_views_, workspace(op),
                            stream(op.stream).handle());
      break;
    case OpKind::update:
      update(op.index);
      break;
    case OpKind::refresh:
      refresh(op, Phase::update);
      break;
  }
}

void Engine::start_gather(const Op& op, std::size_t position) {
  const Phase phase = evaluating_         ? Phase::evaluation
                      : op.backward_phase ? Phase::backward
                                          : Phase::forward;
  auto& gather = weights_.global(op.index, phase);
  const View full = arena_.view(units_[op.index].padded, options_.compute, op.result);
  gather.start(compute_shard(op.index), full, workspace(op), stream(op.stream).handle());
  weight_views_[op.index] = full;
  pending_[position] = [&gather] { gather.finish(); };
}

void Engine::start_secondary_gather(const Op& op, std::size_t position) {
  const Phase phase = evaluating_         ? Phase::evaluation
                      : op.backward_phase ? Phase::backward
                                          : Phase::forward;
  auto& gather = weights_.secondary(op.index, phase);
  const View full = arena_.view(units_[op.index].padded, options_.compute, op.result);
  gather.start(secondary_->read(op.index, version_), full, workspace(op),
               stream(op.stream).handle());
  weight_views_[op.index] = full;
  pending_[position] = [&gather] { gather.finish(); };
  ++recorder_.counters["secondary_gathers"];
}

void Engine::refresh(const Op& op, Phase phase) {
  auto& gather = weights_.global(op.index, phase);
  gather.start(compute_shard(op.index),
               resident_weights_[op.index].view(units_[op.index].padded, options_.compute),
               workspace(op), stream(op.stream).handle());
  gather.finish();
}

void Engine::forward(const Op& op) {
  if (op.index == 0) {
    model_.begin((*batch_)(op.micro_step), !evaluating_, stream(op.stream).handle());
  }
  std::vector<ConstView> weights;
  for (const std::size_t unit : input_.layers[op.index].units)
    weights.push_back(weight_views_[unit]);
  model_.forward(op.index, weights, stream(op.stream).handle());
}

void Engine::backward(const Op& op) {
  std::vector<ConstView> weights;
  std::vector<View> gradients;
  for (const std::size_t unit : input_.layers[op.index].units) {
    weights.push_back(weight_views_[unit]);
    gradients.push_back(gradient_views_[unit]);
  }
  model_.backward(op.index, weights, gradients, stream(op.stream).handle());
}

/// Scales this part's gradients to the mean, once, and returns its global norm, the same on every
/// rank: partial sums by canonical shard, added in shard order.
double Engine::finish_norm() {
  const StreamHandle compute = stream(StreamId::compute).handle();
  const auto mean = static_cast<float>(1.0 / (static_cast<double>(groups_.world->size()) *
                                              static_cast<double>(options_.accumulation_steps)));
  std::vector<View> gradients;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const View part = preset_.shard_optimizer
                          ? gradient_shards_[u].view(units_[u].shard, Dtype::fp32)
                          : local_gradients_[u].view(units_[u].padded, Dtype::fp32);
    device_.optim->scale(part.count, mean, part.as<float>(), compute);
    gradients.push_back(part);
  }
  std::vector<double> partial = optimizer_.squared_norms(gradients, compute);
  if (preset_.shard_optimizer) partial = control_.all_gather(partial);
  double total = 0;
  for (const double part : partial) total += part;
  return std::sqrt(total);
}

void Engine::update(std::size_t unit) {
  const View gradient = preset_.shard_optimizer
                            ? gradient_shards_[unit].view(units_[unit].shard, Dtype::fp32)
                            : local_gradients_[unit].view(units_[unit].padded, Dtype::fp32);
  optimizer_.update(unit, gradient, steps_taken_, clip_, stream(StreamId::compute).handle());
  cut(unit);
}

ConstView Engine::compute_shard(std::size_t unit) const {
  return compute_shards_.empty() ? ConstView(optimizer_.master(unit))
                                 : compute_shards_[unit].view(units_[unit].shard, options_.compute);
}

/// The weights in the compute dtype follow the master: the own shard, or everything at stage 0.
void Engine::cut(std::size_t unit) {
  const StreamHandle compute = stream(StreamId::compute).handle();
  if (!preset_.shard_optimizer) {
    device_.memory_ops->convert(optimizer_.master(unit),
                                resident_weights_[unit].view(units_[unit].padded, options_.compute),
                                compute);
  } else if (!compute_shards_.empty()) {
    device_.memory_ops->convert(optimizer_.master(unit),
                                compute_shards_[unit].view(units_[unit].shard, options_.compute),
                                compute);
  }
}

comm::Bytes Engine::sent() const {
  comm::Bytes total;
  for (const trace::CollectiveRow& row : recorder_.collectives) {
    total += {row.wire_bytes_intra, row.wire_bytes_inter};
  }
  return total;
}

std::span<std::byte> Engine::workspace(const Op& op) const {
  const std::span<std::byte> all = arena_.span();
  return op.workspace == kNoMemory ? std::span<std::byte>{} : all.subspan(op.workspace);
}

std::string Engine::parameters_hash() const {
  Sha256 own;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const ConstView shard = optimizer_.canonical_master(u);
    own.update({shard.as<std::byte>(), shard.bytes()});
  }
  Sha256 all;
  for (const std::string& digest : control_.gather(own.hex())) {
    all.update(std::as_bytes(std::span(digest)));
  }
  return control_.broadcast(all.hex());
}

std::vector<float> Engine::gather_master(std::size_t unit) const {
  const ConstView shard = optimizer_.canonical_master(unit);
  const auto parts = control_.gather(std::string(shard.as<char>(), shard.bytes()));
  std::vector<float> full;
  for (const std::string& part : parts) {
    const std::size_t at = full.size();
    full.resize(at + part.size() / sizeof(float));
    std::memcpy(full.data() + at, part.data(), part.size());
  }
  if (!full.empty()) full.resize(units_[unit].flat);
  return full;
}

std::vector<MemoryReport> Engine::memory() const {
  const std::size_t secondary = secondary_ ? secondary_->bytes() : 0;
  const std::array<std::size_t, 7> actual{optimizer_.master_bytes(),
                                          optimizer_.moment_bytes(),
                                          bytes_of(gradient_shards_),
                                          bytes_of(compute_shards_),
                                          bytes_of(resident_weights_),
                                          bytes_of(local_gradients_),
                                          secondary};
  std::vector<MemoryReport> reports;
  const auto predicted = state_memory(units_, preset_, options_.compute);
  for (std::size_t i = 0; i < actual.size(); ++i)
    reports.push_back({predicted[i].name, predicted[i].bytes, actual.at(i)});
  std::size_t planned = update_schedule_.arena_bytes;
  for (const auto& schedules : {std::cref(step_schedules_), std::cref(evaluation_schedules_)}) {
    for (const Schedule& schedule : schedules.get())
      planned = std::max(planned, schedule.arena_bytes);
  }
  reports.push_back({"arena", planned, arena_.bytes()});
  return reports;
}

}  // namespace zeropp::zero
