#include "lib/zero/offloaded_optimizer.hpp"

#include <algorithm>

namespace zeropp::zero {

namespace {

std::vector<std::size_t> counts_of(std::span<const View> views) {
  std::vector<std::size_t> counts;
  for (const View& view : views) counts.push_back(view.count);
  return counts;
}

std::vector<View> parts_of(std::span<const View> views, const std::vector<OffloadPiece>& pieces) {
  std::vector<View> parts;
  parts.reserve(pieces.size());
  for (const OffloadPiece& piece : pieces) {
    parts.emplace_back(views[piece.unit].part(piece.extent.begin, piece.extent.count));
  }
  return parts;
}

}  // namespace

OffloadedOptimizer::OffloadedOptimizer(const std::vector<Unit>& units,
                                       const std::vector<UnitPartition>& partitions,
                                       std::span<const View> gradients,
                                       std::span<const View> weights, bool sharded,
                                       std::size_t rank, const Options& options,
                                       const optim::Options& optimizer, const Device& device,
                                       const Workers& workers)
    : workers_(workers),
      compute_(options.compute),
      stay_(options.offload_param.enabled()),
      pieces_(offload_pieces(counts_of(gradients), options.offload_optimizer)),
      gradients_(parts_of(gradients, pieces_)),
      weights_(stay_ && compute_ == Dtype::fp32 ? std::vector<View>(pieces_.size())
                                                : parts_of(weights, pieces_)),
      staging_(make_staging(offload_staging(pieces_, options.offload_optimizer), device)),
      down_(device.make_stream("offload down", StreamPriority::high)),
      up_(device.make_stream("offload up", StreamPriority::high)),
      shard_(units, partitions, arrays(units.size()), sharded, rank, options.seed, optimizer, host_,
             options.offload_optimizer.pin_memory ? device.staging() : host_.memory, {}) {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const UnitPartition& unit = partitions[pieces_[piece].unit];
    gaps_.push_back(gaps(piece, unit, sharded ? rank * unit.shard : 0));
  }
}

std::vector<OffloadedOptimizer::Staging> OffloadedOptimizer::make_staging(
    const OffloadStaging& plan, const Device& device) const {
  std::vector<Staging> made(plan.buffers);
  for (Staging& each : made) {
    each.gradients = Buffer(plan.elements * sizeof(float), device.staging());
    if (compute_ == Dtype::fp32 || stay_) continue;
    each.weights = Buffer(plan.elements * size_of(compute_), device.staging());
  }
  return made;
}

std::vector<UnitArrays> OffloadedOptimizer::arrays(std::size_t units) {
  std::vector<UnitArrays> made(units);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Extent& extent = pieces_[i].extent;
    UnitArrays& unit = made[pieces_[i].unit];
    unit.extent.count = extent.begin + extent.count;
    unit.ranges.push_back({staging(i).gradients.view(extent.count, Dtype::fp32), narrow(i)});
  }
  return made;
}

std::span<const OffloadPiece> OffloadedOptimizer::pieces_of(std::size_t unit) const {
  const auto [first, last] = std::ranges::equal_range(pieces_, unit, {}, &OffloadPiece::unit);
  return {first, last};
}

std::vector<View> OffloadedOptimizer::gaps(std::size_t piece, const UnitPartition& unit,
                                           std::size_t own) {
  std::vector<View> found;
  if (compute_ == Dtype::fp32 || stay_) return found;
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
  if (stay_) return weights_[piece];
  return staging(piece).weights.view(pieces_[piece].extent.count, compute_);
}

void OffloadedOptimizer::begin(const Stream& stream) {
  Event ready;
  stream.record(ready);
  down_.wait(ready);
  up_.wait(ready);
  for (std::size_t piece = 0; piece < staging_.size(); ++piece) fetch(piece);
}

void OffloadedOptimizer::fetch(std::size_t piece) {
  const View& from = gradients_[piece];
  Staging& to = staging(piece);
  down_.copy(to.gradients.data(), static_cast<const std::byte*>(from.data), from.bytes());
  down_.record(to.arrived);
}

void OffloadedOptimizer::send(std::size_t piece) {
  if (stay_) return;
  const OffloadPiece& of = pieces_[piece];
  const View from = compute_ == Dtype::fp32
                        ? shard_.master(of.unit).part(of.extent.begin, of.extent.count)
                        : narrow(piece);
  up_.copy(static_cast<std::byte*>(weights_[piece].data), static_cast<const std::byte*>(from.data),
           from.bytes());
  up_.record(staging(piece).left);
}

void OffloadedOptimizer::join(const Stream& stream) {
  Event sent;
  up_.record(sent);
  stream.wait(sent);
}

void OffloadedOptimizer::update(std::size_t unit, std::uint64_t t, float mean, double clip,
                                const Stream& stream) {
  for (const OffloadPiece& each : pieces_of(unit)) {
    const auto piece = static_cast<std::size_t>(&each - pieces_.data());
    const Staging& through = staging(piece);
    through.arrived.synchronize();
    through.left.synchronize();
    const std::size_t parts = workers_.count();
    workers_.share(parts, [&](std::size_t, std::size_t part) {
      shard_.update_part(unit, each.range, part, parts, t, mean, clip, {});
    });
    for (const View& gap : gaps_[piece]) host_.memory_ops->clear(gap, {});
    if (piece + staging_.size() < pieces_.size()) fetch(piece + staging_.size());
    send(piece);
  }
  join(stream);
}

void OffloadedOptimizer::publish(std::size_t unit, const Stream& stream) {
  for (const OffloadPiece& each : pieces_of(unit)) {
    const auto piece = static_cast<std::size_t>(&each - pieces_.data());
    staging(piece).left.synchronize();
    if (compute_ != Dtype::fp32) {
      const View master = shard_.master(unit).part(each.extent.begin, each.extent.count);
      host_.memory_ops->convert(master, narrow(piece), {});
    }
    send(piece);
  }
  join(stream);
}

std::size_t OffloadedOptimizer::staging_bytes() const {
  std::size_t total = 0;
  for (const Staging& each : staging_) total += each.gradients.bytes() + each.weights.bytes();
  return total;
}

}  // namespace zeropp::zero
