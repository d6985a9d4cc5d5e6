#include "lib/zero/engine/rank_optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/zero/plan/offload_plan.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {

namespace {

/// Ranks of this host, as far as the topology tells: declared nodes may all be on it.
int neighbours(const comm::Groups& groups) {
  const comm::Topology& topology = groups.topology;
  return topology.emulated || !topology.uniform() ? topology.world_size : topology.ranks_per_node;
}

OptimizerSetup setup_of(const EngineContext& context, const optim::Options& options) {
  return {.units = context.model.units(),
          .partitions = context.units(),
          .owned = context.owned(),
          .seed = context.options.seed,
          .options = options};
}

}  // namespace

RankOptimizer::RankOptimizer(const EngineContext& context, const optim::Options& options,
                             const RankMemory& memory)
    : context_(context),
      memory_(memory),
      shard_(setup_of(context, options), device_arrays(),
             {.device = context.device,
              .memory = context.device.memory,
              .stream = context.compute().handle()}),
      image_updates_(context),
      updated_(context.units().size()) {
  const std::vector<UnitPartition>& units = context.units();
  const std::vector<bool> on_file = weights_on_file(units, context.options.offload_param);
  if (std::ranges::find(on_file, true) != on_file.end()) {
    std::vector<std::size_t> counts(units.size());
    std::ranges::transform(units, counts.begin(), &UnitPartition::shard);
    file_weights_.emplace(offload_pieces(counts, context.options.offload_optimizer), on_file,
                          context.options, context.device);
  }
  if (context.options.offload_optimizer.enabled()) {
    std::vector<View> weights;
    for (std::size_t u = 0; u < units.size(); ++u) weights.push_back(memory.compute_shard(u));
    const std::vector<View> gradients = memory.own_gradients();
    offloaded_.emplace(setup_of(context, options),
                       OffloadedArrays{.gradients = gradients,
                                       .weights = weights,
                                       .file_weights = file_weights_ ? &*file_weights_ : nullptr},
                       context.options, context.device,
                       Workers::on_this_host(neighbours(context.groups)));
  }
  if (keeps_weight_images(context.options)) images_.emplace(context);
  prepare_images();
  for (std::size_t u = 0; u < units.size(); ++u) make_weights(u);
  wait_for_files();
}

/// Views of the gradients and weights that the device's part of the optimizer steps with, by unit.
std::vector<UnitArrays> RankOptimizer::device_arrays() const {
  std::vector<UnitArrays> arrays;
  for (const View& gradient : memory_.own_gradients()) {
    const std::size_t first =
        offloaded_elements(gradient.count, context_.options.offload_optimizer);
    const std::size_t count = gradient.count - first;
    const View all = memory_.compute_shard(arrays.size());
    const bool narrow = context_.options.compute != Dtype::fp32 && all.count > 0 && count > 0;
    const View weights = narrow ? View(all.part(first, count)) : View{};
    arrays.push_back({{first, count}, {{gradient.part(first, count), weights}}});
  }
  return arrays;
}

void RankOptimizer::prepare_images() {
  const std::vector<UnitArrays> arrays = device_arrays();
  for (std::size_t u = 0; images_ && u < arrays.size(); ++u) {
    if (images_->memory(u) == nullptr) continue;
    image_updates_.prepare(shard_, u, arrays[u], images_->memory(u),
                           &collective::AllGather::image_chunks);
  }
  if (!updates_encode_refreshes(context_.options)) return;
  for (const Op& op : context_.plan.step.update.ops) {
    if (op.kind != OpKind::refresh) continue;
    image_updates_.prepare(shard_, op.index, arrays[op.index], memory_.workspace(op).data(),
                           &collective::AllGather::sent_chunks);
  }
}

void RankOptimizer::begin_step(const Stream& compute) {
  if (offloaded_) offloaded_->begin(compute);
}

void RankOptimizer::update(const Op& op, std::uint64_t t, float gradient_scale, double clip) {
  const std::size_t unit = op.index;
  const Stream& on = context_.executor.stream(op.stream);
  const std::uint64_t version = context_.progress.version + 1;  // of the weights that it makes
  const auto image = image_updates_.image(unit);
  if (image) {
    shard_.update_image(*image, t, gradient_scale, clip, on.handle());
    if (images_ && images_->has(unit)) images_->set_written(unit, version);
  } else {
    shard_.update(unit, t, gradient_scale, clip, on.handle());
  }
  if (context_.options.compute == Dtype::fp32) cast_to_compute(unit, on);
  if (offloaded_) {
    const auto begin = std::chrono::steady_clock::now();
    offloaded_->update(unit, t, gradient_scale, clip, on);
    host_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (images_ && !image) images_->encode(unit, weight_shard(unit), version, on.handle());
  on.record(updated_[unit]);
}

/// Casts the part of a unit that the device steps.
void RankOptimizer::cast_to_compute(std::size_t unit, const Stream& on) const {
  const View weights = memory_.compute_shard(unit);
  const Extent& here = shard_.extent(unit);
  if (weights.count == 0 || here.count == 0) return;
  context_.device.memory_ops->convert(shard_.master(unit), weights.part(here.begin, here.count),
                                      on.handle());
}

void RankOptimizer::make_weights(std::size_t unit) {
  const Stream& compute = context_.compute();
  if (images_) images_->forget(unit);
  cast_to_compute(unit, compute);
  if (offloaded_) offloaded_->make_weights(unit, compute);
}

void RankOptimizer::wait_for_files() {
  if (offloaded_) offloaded_->wait_for_files();
}

void RankOptimizer::prefetch_weights(const Schedule& schedule) {
  if (!file_weights_) return;
  std::vector<std::size_t> units;
  for (const Op& op : schedule.ops) {
    const bool reads = op.kind == OpKind::gather || op.kind == OpKind::exchange;
    if (reads && file_weights_->has(op.index)) units.push_back(op.index);
  }
  file_weights_->prefetch(std::move(units));
}

ConstView RankOptimizer::weight_shard(std::size_t unit) const {
  if (!memory_.compute_shards.empty()) return memory_.compute_shard(unit);
  return offloaded_ ? offloaded_->shard().master(unit) : shard_.master(unit);
}

ConstView RankOptimizer::shard_to_gather(const Op& op) {
  if (!context_.options.offload_param.enabled()) return weight_shard(op.index);
  std::byte* const here = memory_.workspace(op).data();
  const Stream& on = context_.executor.stream(op.stream);
  if (file_weights_ && file_weights_->has(op.index)) {
    if (op.kind == OpKind::refresh) offloaded_->wait_for_files();  // an update has just made them
    file_weights_->upload(op.index, here, on);
  } else {
    const ConstView shard = weight_shard(op.index);
    on.copy(here, static_cast<const std::byte*>(shard.data), shard.bytes());
  }
  return {here, context_.units()[op.index].shard, context_.options.compute, context_.device.memory};
}

std::span<std::byte> RankOptimizer::workspace_behind_shard(const Op& op) const {
  return memory_.workspace(op).subspan(upload_bytes(context_.units()[op.index], context_.options));
}

std::vector<const AsyncFile*> RankOptimizer::files() const {
  std::vector<const AsyncFile*> found;
  if (offloaded_ && offloaded_->records() != nullptr)
    found.push_back(&offloaded_->records()->file());
  if (file_weights_) found.push_back(&file_weights_->file());
  return found;
}

}  // namespace zeropp::zero
