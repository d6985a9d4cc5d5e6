#include "lib/zero/communication/reduction_sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "lib/base/checked.hpp"
#include "lib/collective/collective.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/zero/plan/draw_keys.hpp"
#include "lib/zero/plan/loss_scale.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

namespace {

/// Whether errors of both hops of a reduction are kept, or of the only one.
std::size_t hops_of(const Options& options, const comm::Topology& topology) {
  if (!feedback_of(options)) return 0;
  const bool two =
      collective::reduce_scatter_traits(options.reduce_scatter_algorithm).hierarchical &&
      topology.node_count > 1 && topology.ranks_per_node > 1;
  return two ? 2 : 1;
}

bool rotates(const codec::CodecSpec& spec) {
  return std::ranges::find(spec.options, "had32") != spec.options.end();
}

bool scales_images(const codec::CodecSpec& spec) {
  return codec::find_info(spec.format)->scales_images;
}

bool same_bits(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }

/// Bounds of sums that a vendor's library makes of these terms in any order, in the type it sends.
std::vector<double> vendor_bounds(Dtype plain, const collective::Slices& slices, int terms) {
  const double unit = plain == Dtype::fp32 ? 0x1p-23 : plain == Dtype::bf16 ? 0x1p-8 : 0x1p-10;
  std::vector<double> bounds;
  for (int source = 0; source < terms; ++source) {
    const std::vector<float> values = slices(source).values;
    bounds.resize(values.size());
    for (std::size_t e = 0; e < values.size(); ++e)
      bounds[e] += unit * (terms + 1) * std::abs(static_cast<double>(values[e]));
  }
  return bounds;
}

std::vector<float> widened(const std::byte* memory, Dtype dtype, std::size_t count) {
  std::vector<float> values(count);
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* const from = reinterpret_cast<const T*>(memory);
    for (std::size_t i = 0; i < count; ++i) values[i] = to_float(from[i]);
  });
  return values;
}

}  // namespace

ReductionSample::ReductionSample(const Options& options, const CodecTable& codecs,
                                 const std::vector<UnitPartition>& units,
                                 const std::vector<Bucket>& buckets, const comm::Groups& groups,
                                 std::size_t quantum, const Device& device)
    : options_(options),
      codecs_(codecs),
      units_(units),
      buckets_(buckets),
      topology_(groups.sharding().topology),
      groups_(groups.replicas ? static_cast<std::size_t>(groups.replicas->size()) : 1),
      rank_(static_cast<std::size_t>(groups.sharding().world->rank())),
      quantum_(std::lcm(quantum, collective::kErrorBlock)),
      device_(device),
      feedback_(feedback_of(options)),
      hops_(hops_of(options, topology_)) {
  std::size_t most = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    begin(b);
    most = std::max(most, rows() * row_bytes());
  }
  values_ = Buffer::zeros(most / sizeof(float), Dtype::fp32, device.staging());
}

void ReductionSample::begin(std::uint64_t number) {
  // Local gradients are reduced once, after the last micro-step.
  const std::size_t reductions =
      stage_preset(options_.stage).shard_gradients ? options_.accumulation_steps : 1;
  bucket_ = number % buckets_.size();
  number /= buckets_.size();
  micro_step_ = options_.accumulation_steps - 1 - number % reductions;
  number /= reductions;
  const std::size_t count = buckets_[bucket_].count();
  const std::size_t room = std::max(kElements / (groups_ * shards()), quantum_);
  const std::size_t window = std::min(count, room / quantum_ * quantum_);
  destinations_ = std::clamp<std::size_t>(room / window, 1, shards());
  const std::uint64_t turn = number * destinations_;
  first_destination_ = turn % shards();
  first_ = turn / shards() % ceil_div(count, window) * window;
  length_ = std::min(window, count - first_);
}

std::size_t ReductionSample::row_bytes() const {
  const std::size_t errors =
      feedback_ ? collective::error_image_bytes(feedback_->storage, length_) : 0;
  return round_up(std::max(length_ * sizeof(float), errors), alignof(std::max_align_t));
}

void ReductionSample::keep_input(std::span<const View> gradients, const GradientErrors& errors,
                                 std::size_t codec, std::uint64_t draws, StreamHandle stream) {
  codec_ = codec;
  draws_ = draws;
  const collective::ErrorFeedback* const kept = errors.of(Transfer::gradients, bucket_);
  for (std::size_t i = 0; i < destinations_; ++i) {
    const std::size_t part = destination(i);
    std::size_t at = 0;
    for (const Segment& segment : buckets_[bucket_].segments) {
      const std::size_t begin = std::max(at, first_);
      const std::size_t end = std::min(at + segment.count, first_ + length_);
      if (begin < end) {
        const ConstView unit = gradients[segment.unit];
        const ConstView from =
            unit.part(part * units_[segment.unit].shard + segment.offset + begin - at, end - begin);
        const std::size_t offset = i * row_bytes() + (begin - first_) * size_of(from.dtype);
        device_.memory_ops->copy(from, values_.view(from.count, from.dtype, offset), stream);
      }
      at += segment.count;
    }
    if (kept == nullptr) continue;
    const auto& [first, second] = kept->hops();
    const collective::HopErrors* const of_parts = first || hops_ == 2 ? first.get() : second.get();
    if (of_parts != nullptr) keep_errors(*of_parts, part, destinations_ + i, stream);
    const auto local = static_cast<std::size_t>(topology_.ranks_per_node);
    if (hops_ < 2 || !second || part % local != rank_ % local) continue;
    keep_errors(*second, part / local, 2 * destinations_ + i, stream);
  }
}

void ReductionSample::keep_errors(const collective::HopErrors& errors, std::size_t part,
                                  std::size_t row, StreamHandle stream) const {
  errors.copy(part, first_, length_, values_.data() + row * row_bytes(), stream);
}

void ReductionSample::keep_sum(ConstView sum, StreamHandle stream) const {
  device_.memory_ops->copy(sum.part(first_, length_),
                           values_.view(length_, Dtype::fp32, (rows() - 1) * row_bytes()), stream);
}

void ReductionSample::append_to(std::vector<std::uint64_t>& message) const {
  const auto append = [&](const std::vector<float>& row) {
    const std::size_t at = message.size();
    message.resize(at + row_words());
    std::memcpy(message.data() + at, row.data(), row.size() * sizeof(float));
  };
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::byte* const memory = values_.data() + row * row_bytes();
    if (row + 1 == rows()) {
      append(widened(memory, Dtype::fp32, length_));
    } else if (row >= destinations_) {
      append(collective::errors_of(feedback_->storage, memory, length_));
    } else {
      append(widened(memory, units_[unit_of(buckets_[bucket_])].gradients, length_));
    }
  }
}

std::vector<float> ReductionSample::row_of(const Rows& rows, std::size_t rank,
                                           std::size_t index) const {
  std::vector<float> values(length_);
  std::memcpy(values.data(), rows.words.data() + rank * rows.stride + index * row_words(),
              length_ * sizeof(float));
  return values;
}

std::size_t ReductionSample::unit_at(std::size_t element) const {
  std::size_t end = 0;
  for (const Segment& segment : buckets_[bucket_].segments) {
    end += segment.count;
    if (element < end) return segment.unit;
  }
  return unit_of(buckets_[bucket_]);
}

ReductionSample::Sameness ReductionSample::sameness(
    const collective::ReduceScatterPlan& plan) const {
  const collective::Traits& traits =
      collective::reduce_scatter_traits(options_.reduce_scatter_algorithm);
  if (scales_images(plan.codec_first) || scales_images(plan.codec_second)) {
    // Such a scale depends on all values that an image has: those of a whole part, and in the first
    // of two hops of parts of other nodes, which the sample does not have.
    const bool whole = length_ == buckets_[bucket_].count() && plan.depth == 1;
    if (!whole) return Sameness::unknown;
    if (traits.hierarchical && topology_.node_count > 1) return Sameness::bound;
  }
  // Rotated values are summed before they are rotated back; the reference sums decoded ones.
  const bool bits = !traits.modelled && !rotates(plan.codec_first) && !rotates(plan.codec_second);
  return bits ? Sameness::bits : Sameness::bound;
}

std::optional<ReductionSample::Wrong> ReductionSample::judge(std::span<const std::uint64_t> all,
                                                             std::size_t stride) const {
  const Collective made =
      gradient_collective(options_, codecs_, units_, buckets_[bucket_], shards(), groups_,
                          {Transfer::gradients, bucket_, codec_});
  const Sameness same = sameness(made.reduction());
  if (same == Sameness::unknown) return std::nullopt;
  const Rows rows{all, stride};
  for (std::size_t group = 0; group < groups_; ++group) {
    for (std::size_t i = 0; i < destinations_; ++i) {
      if (const auto wrong = first_wrong(made, same, rows, group, i)) {
        return Wrong{static_cast<int>(group * shards() + destination(i)), unit_at(first_ + *wrong)};
      }
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> ReductionSample::first_wrong(const Collective& made, Sameness same,
                                                        const Rows& rows, std::size_t group,
                                                        std::size_t number) const {
  const collective::ReduceScatterPlan& plan = made.reduction();
  const auto& algorithm = collective::find_reduce_scatter(made.algorithm);
  const auto largest = largest_fp16_term(options_.compute, algorithm.ranks_in_sums(topology_));
  const std::size_t own = destination(number);
  const auto row = [&](std::size_t source, std::size_t index) {
    return row_of(rows, group * shards() + source, index);
  };
  const collective::Slices slices = [&](int source) {
    std::vector<float> values = row(static_cast<std::size_t>(source), number);
    if (largest) optim::host_optim_ops().overflow(*largest, 1, length_, length_, values.data(), {});
    return collective::Estimate::exact(std::move(values));
  };
  collective::SliceErrors errors;
  for (std::size_t r = 0; hops_ > 0 && r < shards(); ++r)
    errors.first.push_back(row(r, destinations_ + number));
  const auto local = static_cast<std::size_t>(topology_.ranks_per_node);
  for (std::size_t r = own % local; hops_ > 1 && r < shards(); r += local)
    errors.second.push_back(row(r, 2 * destinations_ + number));
  const collective::Reduction reduction{
      .algorithm = std::string(made.algorithm),
      .topology = topology_,
      .plain = plan.plain,
      .first = plan.codec_first,
      .second = plan.codec_second,
      .feedback = feedback_.value_or(collective::FeedbackOptions{}),
      .key = groups_ > 1 ? draws_of(draws_, Group::shards, static_cast<int>(group)) : draws_,
      .begin = first_};
  const collective::Estimate expected =
      reduction.sum(static_cast<int>(own), slices, hops_ > 0 ? &errors : nullptr);
  const std::vector<float> sum = row(own, this->rows() - 1);
  const auto different = std::ranges::mismatch(sum, expected.values, same_bits);
  auto e = static_cast<std::size_t>(different.in1 - sum.begin());
  if (e < length_ && same == Sameness::bound) {
    const std::vector<double> exact = reduction.exact(slices);
    const std::vector<double> bounds = algorithm.traits.modelled
                                           ? vendor_bounds(plan.plain, slices, topology_.world_size)
                                           : expected.bound;
    while (e < length_ && (!std::isfinite(exact[e]) || std::abs(sum[e] - exact[e]) <= bounds[e]))
      ++e;
  }
  return e < length_ ? std::optional(e) : std::nullopt;
}

}  // namespace zeropp::zero
