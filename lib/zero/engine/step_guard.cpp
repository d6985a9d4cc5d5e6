#include "lib/zero/engine/step_guard.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "lib/base/checked.hpp"
#include "lib/base/host.hpp"
#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

namespace {

/// The parts of the optimizer that lie in memory.
std::vector<const OptimizerShard*> shards_in_memory(const RankOptimizer& optimizer) {
  std::vector<const OptimizerShard*> shards{&optimizer.on_device()};
  if (optimizer.offloaded() != nullptr) shards.push_back(&optimizer.offloaded()->shard());
  return shards;
}

}  // namespace

StepGuard::StepGuard(const EngineContext& context, const RankMemory& memory,
                     const RankOptimizer& optimizer)
    : context_(context),
      memory_(memory),
      optimizer_(optimizer),
      reduction_(context.options, context.plan.codecs, context.units(), context.plan.buckets(),
                 context.reduce_groups, bucket_quantum(context.options), context.device),
      update_(context.model.units(), shards_in_memory(optimizer), context.device),
      digests_(Buffer::zeros(guard_memory(context.units().size()) / sizeof(float), Dtype::fp32,
                             context.device.memory)),
      fetched_(digests_.bytes(), context.device.staging()),
      host_sums_(kSeen * context.units().size()),
      cut_(context.units().size()) {}

void StepGuard::begin_step() {
  const std::uint64_t step = context_.progress.steps.begun;
  verifies_ = std::exchange(first_, false) || is_verified(step);
  leaves_ = is_verified(step + 1);
  if (verifies_) {
    clear(Seen::resident, Seen::gradients);
    clear(Seen::at_rest, Seen::at_rest);
    reduction_.begin(step / context_.options.verify_interval);
    cut_.assign(cut_.size(), false);
    if (context_.plan.updates_in_backward()) update_.begin(step / context_.options.verify_interval);
  }
  if (leaves_) clear(left(step), left(step));
}

void StepGuard::clear(Seen first, Seen last) {
  const std::size_t begin = slot(first, 0);
  const std::size_t count = slot(last, 0) + context_.units().size() - begin;
  constexpr std::size_t kFloats = sizeof(std::uint64_t) / sizeof(float);
  context_.device.memory_ops->clear(
      digests_.view(count * kFloats, Dtype::fp32, begin * sizeof(std::uint64_t)),
      context_.compute().handle());
  std::fill_n(host_sums_.begin() + static_cast<std::ptrdiff_t>(begin), count, 0);
}

Finish StepGuard::run(const Op& op, const StepRun& with, StepOperations& operations) {
  const bool of_step = op.phase != Phase::evaluation && op.phase != Phase::initial;
  if (!of_step || !(verifies_ || leaves_)) return operations.run(op, with);
  before(op, with);
  Finish finish = operations.run(op, with);
  if (!finish) {
    after(op, context_.executor.stream(op.stream).handle());
    return {};
  }
  return [this, &op, finish = std::move(finish)](StreamHandle end) {
    finish(end);
    after(op, end);
  };
}

void StepGuard::before(const Op& op, const StepRun& with) {
  const StreamHandle on = context_.executor.stream(op.stream).handle();
  if (op.kind == OpKind::reduce && verifies_ && reduction_.is_of(op.index, op.micro_step)) {
    const std::size_t unit = unit_of(context_.plan.buckets()[op.index]);
    reduction_.keep_input(memory_.gradients, context_.collectives.gradients.errors(),
                          context_.plan.choice.gradients[unit],
                          gradient_draws(context_.options.seed, context_.progress.steps.begun,
                                         op.micro_step, op.index),
                          on);
  } else if (op.kind == OpKind::update) {
    if (verifies_ && op.phase == Phase::backward) add_optimizer(Seen::at_rest, op.index, on);
    if (samples_update(op)) {
      update_.keep_old(memory_.own_gradients()[op.index], with.t, with.gradient_scale, with.clip,
                       on);
    }
  }
}

void StepGuard::after(const Op& op, StreamHandle on) {
  if (op.kind == OpKind::update) {
    if (samples_update(op)) update_.keep_new(on);
    if (!leaves_) return;
    add_optimizer(left(context_.progress.steps.begun), op.index, on);
    left_steps_[context_.progress.steps.begun % 2] = context_.progress.steps.begun;
  }
  if (!verifies_) return;
  if (op.kind == OpKind::reduce && reduction_.is_of(op.index, op.micro_step)) {
    reduction_.keep_sum(memory_.sum(op), on);
  } else if (op.kind == OpKind::gather) {
    gathered(op, on);
  } else if (op.kind == OpKind::gather_secondary) {
    add(Seen::inside, op.index, memory_.gathered(op), 0, on);
  } else if (op.kind == OpKind::keep_secondary) {
    const std::size_t count = context_.units()[op.index].secondary;
    const auto rank = static_cast<std::size_t>(context_.groups.secondary->rank());
    add(Seen::cut, op.index, ConstView(memory_.gathered(op)).part(rank * count, count), 0, on);
    cut_[op.index] = true;
  }
}

bool StepGuard::samples_update(const Op& op) const {
  return update_.is_of(op.index) && (context_.plan.updates_in_backward() ? verifies_ : leaves_);
}

void StepGuard::gathered(const Op& op, StreamHandle on) {
  const ConstView full = memory_.gathered(op);
  add(Seen::gathered, op.index, full, 0, on);
  const bool as_it_is =
      !context_.options.quantized_weights && !context_.options.offload_param.enabled();
  if (!as_it_is) return;
  const ConstView shard = optimizer_.weight_shard(op.index);
  if (shard.dtype != full.dtype) return;
  const std::size_t begin = context_.shard_rank() * shard.count;
  const ConstView own = full.part(begin, shard.count);
  add(Seen::own_part, op.index, own, begin * size_of(full.dtype), on);
  add(Seen::own_shard, op.index, shard, begin * size_of(full.dtype), on);
}

void StepGuard::add(Seen what, std::size_t unit, ConstView values, std::size_t offset,
                    StreamHandle on) {
  if (values.count == 0) return;
  const Device& device = context_.device;
  const std::size_t at = slot(what, unit);
  const std::uint64_t place = offset / sizeof(std::uint32_t);
  if (device.memory == MemoryKind::device && values.kind == MemoryKind::host) {
    host_memory_ops().digest(values, place, &host_sums_[at], {});  // of the host's part of updates
  } else {
    device.memory_ops->digest(values, place, reinterpret_cast<std::uint64_t*>(digests_.data()) + at,
                              on);
  }
}

void StepGuard::add_optimizer(Seen what, std::size_t unit, StreamHandle on) {
  std::size_t offset = 0;
  for (const OptimizerShard* shard : shards_in_memory(optimizer_)) {
    for (const View& array : shard->arrays(unit)) {
      add(what, unit, array, offset, on);
      offset += round_up(array.bytes(), sizeof(std::uint32_t));
    }
  }
}

void StepGuard::observe() {
  if (!verifies_) return;
  const Stream& compute = context_.compute();
  const StreamHandle on = compute.handle();
  const bool updated = context_.plan.updates_in_backward();
  // At stage 0 all ranks have all gradients, and with shard groups all replicas have the same sums.
  const bool alike = !context_.preset.shard_optimizer || context_.shard_groups() > 1;
  const std::vector<View> gradients = alike ? memory_.own_gradients() : std::vector<View>();
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    if (!updated) add_optimizer(Seen::at_rest, u, on);
    if (memory_.resident_weights[u].bytes() > 0) add(Seen::resident, u, memory_.resident(u), 0, on);
    if (memory_.secondary) add(Seen::secondary, u, memory_.secondary->shard(u), 0, on);
    if (alike) add(Seen::gradients, u, gradients[u], 0, on);
  }
  compute.copy(fetched_.data(), digests_.data(), fetched_.bytes());
}

std::vector<std::uint64_t> StepGuard::message() {
  std::vector<std::uint64_t> words(kHeaderWords);
  const auto header = [&](Header word) -> std::uint64_t& {
    return words[static_cast<std::size_t>(word)];
  };
  if (context_.groups.secondary)
    header(Header::secondary) = static_cast<std::uint64_t>(context_.groups.secondary->rank());
  if (context_.preset.shard_optimizer) header(Header::shard) = context_.shard_rank();
  if (const auto unit = update_.judge()) header(Header::wrong_update) = 1 + *unit;
  const auto* const fetched = reinterpret_cast<const std::uint64_t*>(fetched_.data());
  for (std::size_t i = 0; i < host_sums_.size(); ++i) words.push_back(fetched[i] + host_sums_[i]);
  reduction_.append_to(words);
  return words;
}

std::string StepGuard::judge() {
  const std::uint64_t step = context_.progress.steps.begun;
  std::string line;
  if (verifies_) {
    ++context_.recorder.counters["verified_steps"];
    const std::vector<std::uint64_t> own = message();
    const std::vector<std::uint64_t> all = context_.control.all_gather(std::span(own));
    const std::vector<Finding> found = compare(all, own.size());
    if (!found.empty()) {
      context_.recorder.counters["verification_alarms"] += found.size();
      line = damage_line(step, found, context_.control.gather(host_name()));
    }
  }
  if (leaves_ && !context_.plan.updates_in_backward())
    update_.begin((step + 1) / context_.options.verify_interval);
  return line;
}

std::vector<Finding> StepGuard::compare(std::span<const std::uint64_t> words,
                                        std::size_t stride) const {
  std::vector<std::string> names;
  for (const Unit& unit : context_.model.units()) names.push_back(unit.name);
  const std::uint64_t before = context_.progress.steps.begun - 1;
  std::vector<Finding> found =
      findings_of({.units = names,
                   .ranks = context_.world_size(),
                   .stride = stride,
                   .one_group = context_.shard_groups() == 1,
                   .has_left = before > 0 && left_steps_[before % 2] == before,
                   .left = left(before),
                   .cut = cut_},
                  words);
  if (const auto wrong = reduction_.judge(words.subspan(stride - reduction_.words()), stride)) {
    found.push_back(
        {"reduced gradients of " + names[wrong->unit] + " are not the sum of what the ranks gave",
         {wrong->rank}});
  }
  return found;
}

MemoryReport StepGuard::memory() const {
  return {kGuardMemory, guard_memory(context_.units().size()), digests_.bytes()};
}

}  // namespace zeropp::zero
