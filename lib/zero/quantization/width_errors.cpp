#include "lib/zero/quantization/width_errors.hpp"

#include <algorithm>
#include <type_traits>

namespace zeropp::zero {

namespace {

std::size_t elements_of(const std::vector<Extent>& extents) {
  std::size_t elements = 0;
  for (const Extent& extent : extents) elements += extent.count;
  return elements;
}

std::size_t largest_image(const std::vector<codec::Codec>& codecs, std::size_t count) {
  std::size_t bytes = 0;
  for (const codec::Codec& codec : codecs) bytes = std::max(bytes, codec.wire_bytes(count));
  return bytes;
}

}  // namespace

std::vector<Extent> sample_of(std::size_t count) {
  constexpr std::size_t kRuns = 16;
  constexpr std::size_t kRun = kSampled / kRuns;
  constexpr std::size_t kLargestBlock = 8192;
  if (count <= kSampled) return {{0, count}};
  std::vector<Extent> runs;
  for (std::size_t i = 0; i < kRuns; ++i) {
    const std::size_t begin = (count - kRun) * i / (kRuns - 1);
    runs.push_back({begin / kLargestBlock * kLargestBlock, kRun});
  }
  return runs;
}

WidthErrors::WidthErrors(const std::vector<codec::CodecSpec>& codecs, Dtype memory,
                         const std::vector<UnitPartition>& units, std::size_t rank,
                         const Device& device)
    : dtype_(memory), units_(units), rank_(rank), device_(device) {
  for (const codec::CodecSpec& codec : codecs) codecs_.emplace_back(codec, memory, device.backend);
  for (const UnitPartition& unit : units_) {
    sampled_.push_back(sample_of(unit.shard));
    counts_.push_back(elements_of(sampled_.back()));
    samples_.push_back(Buffer::zeros(counts_.back(), dtype_, device_.memory));
  }
  const std::size_t largest = *std::ranges::max_element(counts_);
  image_ = Buffer(largest_image(codecs_, largest), device_.memory);
  decoded_ = Buffer(largest * size_of(dtype_), device_.memory);
}

/// Copies the part of the unit's sample that lies in `values`, elements of the unit's shard from
/// `first` on.
void WidthErrors::copy(std::size_t unit, ConstView values, std::size_t first, StreamHandle stream) {
  const View sample = samples_[unit].view(counts_[unit], dtype_);
  std::size_t at = 0;
  for (const Extent& run : sampled_[unit]) {
    const std::size_t begin = std::max(run.begin, first);
    const std::size_t end = std::min(run.begin + run.count, first + values.count);
    if (begin < end) {
      const ConstView from = values.part(begin - first, end - begin);
      const View to = sample.part(at + begin - run.begin, end - begin);
      const MemoryOps& ops = *device_.memory_ops;
      (from.dtype == to.dtype ? ops.copy : ops.convert)(from, to, stream);
    }
    at += run.count;
  }
}

void WidthErrors::keep(std::span<const ConstView> shards, StreamHandle stream) {
  for (std::size_t unit = 0; unit < shards.size(); ++unit) copy(unit, shards[unit], 0, stream);
}

void WidthErrors::keep(const Bucket& bucket, std::span<const View> gradients, StreamHandle stream) {
  for (const Segment& segment : bucket.segments) {
    const std::size_t begin = rank_ * units_[segment.unit].shard + segment.offset;
    copy(segment.unit, ConstView(gradients[segment.unit].part(begin, segment.count)),
         segment.offset, stream);
  }
}

std::vector<float> WidthErrors::fetch(ConstView view, const Stream& stream) const {
  std::vector<std::byte> bytes(view.bytes());
  stream.synchronize();  // the copy to pageable memory would wait unwatched
  device_.memory_ops->copy(view, {bytes.data(), view.count, view.dtype}, stream.handle());
  stream.synchronize();
  std::vector<float> values(view.count);
  with_type(view.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto* const typed = reinterpret_cast<const T*>(bytes.data());
    std::transform(typed, typed + view.count, values.begin(), [](T v) { return to_float(v); });
  });
  return values;
}

std::vector<std::vector<double>> WidthErrors::measure(const Stream& stream) {
  std::vector<std::vector<double>> errors;
  for (std::size_t unit = 0; unit < samples_.size(); ++unit) {
    const std::size_t count = counts_[unit];
    const ConstView sample = samples_[unit].view(count, dtype_);
    const std::vector<float> exact = fetch(sample, stream);
    const double share = static_cast<double>(units_[unit].shard) / static_cast<double>(count);
    errors.emplace_back();
    for (const codec::Codec& codec : codecs_) {
      const auto layout = codec::Layout::contiguous(count);
      const View decoded = decoded_.view(count, dtype_);
      const codec::WireImages image{image_.data(), image_.bytes()};
      codec.encode(sample, layout, image, stream.handle());
      codec.decode(image, layout, decoded, stream.handle());
      const std::vector<float> coded = fetch(decoded, stream);
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double off = static_cast<double>(coded[i]) - static_cast<double>(exact[i]);
        sum += off * off;
      }
      errors.back().push_back(sum * share);
    }
  }
  return errors;
}

MemoryReport WidthErrors::memory() const {
  MemoryReport report{"adaptive_bits", 0, image_.bytes() + decoded_.bytes()};
  std::size_t largest = 0;
  for (std::size_t unit = 0; unit < samples_.size(); ++unit) {
    const std::size_t count = std::min(units_[unit].shard, kSampled);
    largest = std::max(largest, count);
    report.predicted += count * size_of(dtype_);
    report.actual += samples_[unit].bytes();
  }
  report.predicted += largest_image(codecs_, largest) + largest * size_of(dtype_);
  return report;
}

}  // namespace zeropp::zero
