#include "lib/zero/optimizer/offloaded_optimizer.hpp"

#include <algorithm>

#include "lib/base/status.hpp"

namespace zeropp::zero {

namespace {

std::vector<std::size_t> counts_of(std::span<const View> views) {
  std::vector<std::size_t> counts;
  for (const View& view : views) counts.push_back(view.count);
  return counts;
}

/// Views of the pieces in the views of their units; empty ones for units that have none.
std::vector<View> parts_of(std::span<const View> views, const std::vector<OffloadPiece>& pieces) {
  std::vector<View> parts;
  parts.reserve(pieces.size());
  for (const OffloadPiece& piece : pieces) {
    View& part = parts.emplace_back();
    const View& all = views[piece.unit];
    if (all.count > 0) part = all.part(piece.extent.begin, piece.extent.count);
  }
  return parts;
}

MemoryKind memory_of_arrays(const Options& options, const Device& device) {
  return options.offload_optimizer.pin_memory ? device.staging() : MemoryKind::host;
}

}  // namespace

OffloadedOptimizer::OffloadedOptimizer(const OptimizerSetup& setup, const OffloadedArrays& arrays,
                                       const Options& options, const Device& device,
                                       const Workers& workers)
    : workers_(workers),
      compute_(options.compute),
      pipeline_read_(options.offload_optimizer.pipeline_read),
      pipeline_write_(options.offload_optimizer.pipeline_write),
      pieces_(offload_pieces(counts_of(arrays.gradients), options.offload_optimizer)),
      file_weights_(arrays.file_weights),
      targets_(targets(options, arrays.file_weights)),
      gradients_(parts_of(arrays.gradients, pieces_)),
      weights_(parts_of(arrays.weights, pieces_)),
      plan_(offload_staging(pieces_, compute_, optim::kept_by(setup.options),
                            weights_on_file(setup.partitions, options.offload_param),
                            options.offload_optimizer, options.offload_param)),
      staging_(make_staging(plan_, device)),
      prefetched_(options.offload_optimizer.on_file()
                      ? pieces_prefetched(plan_.buffers)
                      : std::max<std::size_t>(1, plan_.buffers) - 1),
      records_(options.offload_optimizer.on_file()
                   ? std::make_unique<OptimizerRecords>(pieces_, optim::kept_by(setup.options),
                                                        plan_, options,
                                                        memory_of_arrays(options, device))
                   : nullptr),
      down_(device.make_stream("offload down", StreamPriority::high)),
      up_(device.make_stream("offload up", StreamPriority::high)),
      shard_(setup, unit_arrays(setup.units.size(), optim::kept_by(setup.options)),
             {.device = host_,
              .memory = memory_of_arrays(options, device),
              .stream = {},
              .workers = workers}) {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const UnitPartition& unit = setup.partitions[pieces_[piece].unit];
    gaps_.push_back(gaps(piece, unit, setup.owned.begin(unit)));
  }
  if (records_) fill_records(setup.units);
}

OffloadedOptimizer::~OffloadedOptimizer() {
  for (const Staging& each : staging_) {
    if (file_weights_ != nullptr) (void)status_of([&] { file_weights_->wait(each.kept); });
  }
}

std::vector<OffloadedOptimizer::Target> OffloadedOptimizer::targets(
    const Options& options, const FileWeights* file_weights) const {
  std::vector<Target> made;
  for (const OffloadPiece& piece : pieces_) {
    if (!options.offload_param.enabled()) {
      made.push_back(Target::device);
    } else if (gathers_master(compute_, options.offload_optimizer, options.offload_param)) {
      made.push_back(Target::nowhere);
    } else {
      made.push_back(file_weights != nullptr && file_weights->has(piece.unit) ? Target::file
                                                                              : Target::host);
    }
  }
  return made;
}

std::vector<OffloadedOptimizer::Staging> OffloadedOptimizer::make_staging(
    const OffloadStaging& plan, const Device& device) const {
  std::vector<Staging> made(plan.buffers);
  for (Staging& each : made) {
    each.gradients = Buffer(plan.gradients, device.staging());
    each.weights = Buffer(plan.weights, device.staging());
  }
  return made;
}

std::vector<UnitArrays> OffloadedOptimizer::unit_arrays(std::size_t units,
                                                        const optim::Kept& kept) {
  std::vector<UnitArrays> made(units);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Extent& extent = pieces_[i].extent;
    UnitArrays& unit = made[pieces_[i].unit];
    unit.extent.count = extent.begin + extent.count;
    UpdateRange range{staging(i).gradients.view(extent.count, Dtype::fp32), narrow(i)};
    if (records_) range.master = records_->master(i);
    for (std::size_t a = 0; records_ && a < kept.states; ++a) {
      range.moments.push_back(records_->moment(i, a));
    }
    unit.ranges.push_back(std::move(range));
  }
  return made;
}

void OffloadedOptimizer::fill_records(const std::vector<Unit>& units) {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    records_->clear(piece);
    shard_.initialize(units, pieces_[piece].unit, pieces_[piece].extent, master(piece), {});
    records_->send(piece);
  }
  records_->drain();
}

std::span<const OffloadPiece> OffloadedOptimizer::pieces_of(std::size_t unit) const {
  const auto [first, last] = std::ranges::equal_range(pieces_, unit, {}, &OffloadPiece::unit);
  return {first, last};
}

std::vector<View> OffloadedOptimizer::gaps(std::size_t piece, const UnitPartition& unit,
                                           std::size_t own) {
  std::vector<View> found;
  const bool lasts = targets_[piece] == Target::host;  // what is zero there stays so
  if (compute_ == Dtype::fp32 || lasts) return found;
  const std::size_t here = own + pieces_[piece].extent.begin;
  for (const Extent& gap : unit.gaps) {
    const std::size_t begin = std::max(gap.begin, here);
    const std::size_t end = std::min(gap.begin + gap.count, here + pieces_[piece].extent.count);
    if (begin < end) found.emplace_back(narrow(piece).part(begin - here, end - begin));
  }
  return found;
}

View OffloadedOptimizer::narrow(std::size_t piece) {
  if (compute_ == Dtype::fp32) return {};
  if (targets_[piece] == Target::host) return weights_[piece];
  return staging(piece).weights.view(pieces_[piece].extent.count, compute_);
}

View OffloadedOptimizer::master(std::size_t piece) {
  if (records_) return records_->master(piece);
  const Extent& extent = pieces_[piece].extent;
  return shard_.master(pieces_[piece].unit).part(extent.begin, extent.count);
}

void OffloadedOptimizer::begin(const Stream& stream) {
  Event ready;
  stream.record(ready);
  down_.wait(ready);
  up_.wait(ready);
  for (std::size_t piece = 0; piece < std::min(prefetched_, pieces_.size()); ++piece) fetch(piece);
}

void OffloadedOptimizer::fetch(std::size_t piece) {
  const View& from = gradients_[piece];
  Staging& to = staging(piece);
  down_.copy(to.gradients.data(), static_cast<const std::byte*>(from.data), from.bytes());
  down_.record(to.arrived);
  if (records_ && pipeline_read_) read(piece);
}

void OffloadedOptimizer::read(std::size_t piece) {
  staging(piece).left.synchronize();  // fp32 weights leave from the record itself
  records_->fetch(piece);
}

void OffloadedOptimizer::send(std::size_t piece) {
  Staging& through = staging(piece);
  const View from = compute_ == Dtype::fp32 ? master(piece) : narrow(piece);
  switch (targets_[piece]) {
    case Target::device:
      up_.copy(static_cast<std::byte*>(weights_[piece].data),
               static_cast<const std::byte*>(from.data), from.bytes());
      up_.record(through.left);
      break;
    case Target::host:
      if (compute_ == Dtype::fp32) host_.memory_ops->copy(from, weights_[piece], {});
      break;
    case Target::file:
      if (compute_ == Dtype::fp32) {
        host_.memory_ops->copy(from, through.weights.view(from.count, compute_), {});
      }
      through.kept = file_weights_->write(piece, through.weights.span());
      break;
    case Target::nowhere:
      break;
  }
}

void OffloadedOptimizer::release(Staging& staging) {
  staging.left.synchronize();
  if (file_weights_ != nullptr) file_weights_->wait(staging.kept);
}

void OffloadedOptimizer::join(const Stream& stream) {
  Event sent;
  up_.record(sent);
  stream.wait(sent);
}

void OffloadedOptimizer::update(std::size_t unit, std::uint64_t t, float gradient_scale,
                                double clip, const Stream& stream) {
  for (const OffloadPiece& each : pieces_of(unit)) {
    const auto piece = static_cast<std::size_t>(&each - pieces_.data());
    Staging& through = staging(piece);
    if (piece + prefetched_ < pieces_.size()) fetch(piece + prefetched_);
    if (records_ && !pipeline_read_) read(piece);
    if (records_) records_->arrive(piece);
    through.arrived.synchronize();
    release(through);
    const std::size_t parts = workers_.count();
    workers_.parallel_for(parts, [&](std::size_t, std::size_t part) {
      shard_.update_part(unit, each.range, part, parts, t, gradient_scale, clip, {});
    });
    for (const View& gap : gaps_[piece]) host_.memory_ops->clear(gap, {});
    send(piece);
    if (records_) records_->send(piece);
    if (records_ && !pipeline_write_) records_->arrive(piece);
  }
  join(stream);
}

void OffloadedOptimizer::make_weights(std::size_t unit, const Stream& stream) {
  for (const OffloadPiece& each : pieces_of(unit)) {
    const auto piece = static_cast<std::size_t>(&each - pieces_.data());
    release(staging(piece));
    if (records_) {
      records_->fetch(piece);
      records_->arrive(piece);
    }
    if (compute_ != Dtype::fp32) host_.memory_ops->convert(master(piece), narrow(piece), {});
    send(piece);
  }
  join(stream);
}

void OffloadedOptimizer::wait_for_files() {
  if (records_) records_->drain();
  for (const Staging& each : staging_) {
    if (file_weights_ != nullptr) file_weights_->wait(each.kept);
  }
}

std::size_t OffloadedOptimizer::staging_bytes() const {
  std::size_t total = records_ ? records_->bytes() : 0;
  for (const Staging& each : staging_) total += each.gradients.bytes() + each.weights.bytes();
  return total;
}

}  // namespace zeropp::zero
