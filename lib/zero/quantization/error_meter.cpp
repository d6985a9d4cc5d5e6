#include "lib/zero/quantization/error_meter.hpp"

#include <algorithm>
#include <type_traits>

#include "lib/collective/draws.hpp"

namespace zeropp::zero {

namespace {

std::vector<std::vector<codec::Codec>> weight_codecs(const Options& options, const RankPlan& plan,
                                                     Backend backend) {
  std::vector<std::vector<codec::Codec>> codecs(plan.units.size());
  for_each_weight_collective(options, plan.codecs, plan.units, [&](const Collective& made) {
    if (made.key.transfer != Transfer::weights) return;
    const codec::Codec codec(made.gather().codec, made.gather().memory, backend);
    codecs[made.key.index].push_back(codec.rounding());
  });
  return codecs;
}

}  // namespace

ErrorMeter::ErrorMeter(const Options& options, const std::vector<Unit>& units, const RankPlan& plan,
                       comm::Groups& groups, comm::Control& control, const Device& device,
                       trace::Recorder& recorder)
    : interval_(options.measure_errors),
      rank_(static_cast<std::size_t>(groups.world->rank())),
      units_(units),
      partitions_(plan.units),
      compute_(options.compute),
      control_(control),
      device_(device),
      recorder_(recorder),
      planned_(measurement_memory(options, plan.codecs, units, plan.units, plan.buckets(),
                                  groups.shape())),
      weight_codecs_(weight_codecs(options, plan, device.backend)),
      image_(planned_.image, device.memory),
      decoded_(planned_.decoded, device.memory),
      exact_(exactly(options), CodecTable(exactly(options), units), plan.units, plan.buckets(),
             groups, uncounted_, device),
      sum_(planned_.sum, device.memory),
      workspace_(planned_.workspace, device.memory) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    exact_shards_.push_back(Buffer::zeros(partitions_[u].shard, Dtype::fp32, device.memory));
    const std::string kind = unit_kind(units_[u].name);
    const auto found = std::ranges::find(kinds_, kind);
    kind_of_.push_back(static_cast<std::size_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(kind);
  }
  sums_.resize(kinds_.size());
}

bool ErrorMeter::begin_step(std::uint64_t step) {
  step_ = step;
  return step % interval_ == 0;
}

std::vector<std::byte> ErrorMeter::fetch(ConstView view, const Stream& stream) const {
  std::vector<std::byte> bytes(view.bytes());
  stream.synchronize();  // the copy to pageable memory would wait unwatched
  device_.memory_ops->copy(view, {bytes.data(), view.count, view.dtype}, stream.handle());
  stream.synchronize();
  return bytes;
}

void ErrorMeter::add(std::size_t unit, ConstView exact, ConstView coded, Dtype dtype,
                     const Stream& stream) {
  const std::vector<std::byte> exact_bytes = fetch(exact, stream);
  const std::vector<std::byte> coded_bytes = fetch(coded, stream);
  const std::size_t begin = rank_ * partitions_[unit].shard;
  const std::size_t end = begin + partitions_[unit].shard;
  ErrorSums& sums = sums_[kind_of_[unit]];
  with_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto value = [&](Dtype of, const std::vector<std::byte>& bytes, std::size_t i) {
      if (of == dtype) return to_float(reinterpret_cast<const T*>(bytes.data())[i]);
      return to_float(saturating_cast<T>(reinterpret_cast<const float*>(bytes.data())[i]));
    };
    for (const Tensor& tensor : units_[unit].tensors) {
      const std::size_t last = std::min(end, tensor.offset + tensor.count());
      for (std::size_t i = std::max(begin, tensor.offset); i < last; ++i) {
        sums.add(value(exact.dtype, exact_bytes, i - begin),
                 value(coded.dtype, coded_bytes, i - begin));
      }
    }
  });
}

void ErrorMeter::weights(std::span<const ConstView> shards, std::span<const ConstView> kept,
                         std::span<const std::uint64_t> keys, std::span<const std::size_t> codecs,
                         const Stream& stream) {
  for (std::size_t unit = 0; unit < shards.size(); ++unit) {
    const ConstView shard = shards[unit];
    const ConstView used = kept[unit].count > 0 ? kept[unit]
                                                : encoded_again(unit, shard, keys[unit],
                                                                codecs[unit], stream.handle());
    add(unit, shard, used, compute_, stream);
  }
  record("weights");
}

ConstView ErrorMeter::encoded_again(std::size_t unit, ConstView shard, std::uint64_t key,
                                    std::size_t codec, StreamHandle stream) const {
  const codec::Codec& wire = weight_codecs_[unit][codec];
  const auto layout = codec::Layout::contiguous(shard.count);
  const View decoded = decoded_.view(shard.count, compute_);
  const codec::WireImages image{image_.data(), image_.bytes()};
  wire.encode(shard, layout, image, stream,
              collective::draw_of(key, collective::kGatherHop, rank_, rank_, /*element=*/0));
  wire.decode(image, layout, decoded, stream);
  return decoded;
}

void ErrorMeter::reduce(std::size_t bucket, std::span<const View> gradients, bool first,
                        StreamHandle stream) {
  const Bucket& parts = exact_.buckets()[bucket];
  const View sum = sum_.view(parts.count(), Dtype::fp32);
  const ConstView sums = sum;
  exact_.start(bucket, gradients, sum, {workspace_.span(), stream});
  exact_.finish(bucket, stream);
  std::size_t at = 0;
  for (const Segment& segment : parts.segments) {
    const ConstView from = sums.part(at, segment.count);
    const View to = exact_shards_[segment.unit]
                        .view(partitions_[segment.unit].shard, Dtype::fp32)
                        .part(segment.offset, segment.count);
    if (first) {
      device_.memory_ops->copy(from, to, stream);
    } else {
      device_.optim->add(segment.count, from.as<float>(), to.as<float>(), stream);
    }
    at += segment.count;
  }
}

void ErrorMeter::gradients(std::span<const ConstView> shards, const Stream& stream) {
  for (std::size_t unit = 0; unit < shards.size(); ++unit) {
    const View exact = exact_shards_[unit].view(partitions_[unit].shard, Dtype::fp32);
    add(unit, exact, shards[unit], Dtype::fp32, stream);
  }
  record("gradients");
}

void ErrorMeter::record(const char* what) {
  std::vector<double> added;
  std::vector<double> largest_of;
  for (const ErrorSums& own : sums_) {
    added.insert(added.end(), {own.exact, own.coded, own.product, own.difference});
    largest_of.insert(largest_of.end(), {own.largest_difference, own.largest_exact});
  }
  control_.all_reduce_sum(std::span<double>(added));
  control_.all_reduce_max(std::span<double>(largest_of));
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const ErrorMeasures found =
        measures_of({added[4 * kind], added[4 * kind + 1], added[4 * kind + 2], added[4 * kind + 3],
                     largest_of[2 * kind], largest_of[2 * kind + 1]});
    recorder_.errors.push_back({step_, what, kinds_[kind], found.relative_l2, found.cosine,
                                found.largest, found.norm_ratio});
  }
  std::ranges::fill(sums_, ErrorSums{});
}

MemoryReport ErrorMeter::memory() const {
  MemoryReport report{"measurement", 0, 0};
  report.predicted = planned_.total();
  report.actual = image_.bytes() + decoded_.bytes() + sum_.bytes() + workspace_.bytes();
  for (const Buffer& shard : exact_shards_) report.actual += shard.bytes();
  return report;
}

}  // namespace zeropp::zero
