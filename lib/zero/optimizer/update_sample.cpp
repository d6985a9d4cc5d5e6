#include "lib/zero/optimizer/update_sample.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

UpdateSample::UpdateSample(const std::vector<Unit>& units,
                           std::vector<const OptimizerShard*> shards, const Device& device)
    : units_(units), device_(device) {
  std::size_t most = 0;
  for (const OptimizerShard* shard : shards) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (shard->arrays(u).empty()) continue;
      candidates_.push_back({shard, u});
      most = std::max(most, shard->extent(u).count);
    }
  }
  if (candidates_.empty()) return;
  most = std::min(most, kElements);
  memory_ = Buffer(most * sizeof(float) + 2 * array_bytes(most), device.staging());
}

std::size_t UpdateSample::array_bytes(std::size_t count) const {
  return round_up(count * sizeof(float) + candidates_.front().shard->kept().bytes(count),
                  alignof(std::max_align_t));
}

void UpdateSample::begin(std::uint64_t number) {
  kept_ = false;
  if (candidates_.empty()) return;
  candidate_ = number % candidates_.size();
  const std::size_t count = sampled().shard->extent(sampled().unit).count;
  const std::size_t begin = number / candidates_.size() % ceil_div(count, kElements) * kElements;
  window_ = {begin, std::min(kElements, count - begin)};
}

void UpdateSample::keep(const void* from, std::size_t bytes, MemoryKind kind, std::size_t offset,
                        StreamHandle stream) const {
  const std::size_t count = bytes / size_of(Dtype::bf16);
  device_.memory_ops->copy({from, count, Dtype::bf16, kind},
                           memory_.view(count, Dtype::bf16, offset), stream);
}

void UpdateSample::keep_arrays(std::size_t offset, StreamHandle stream) const {
  const auto& [shard, unit] = sampled();
  const auto& [begin, count] = window_;
  const View master = shard->master(unit).part(begin, count);
  keep(master.data, master.bytes(), master.kind, offset, stream);
  offset += master.bytes();
  const std::size_t each = optim::moment_element_bytes(shard->moments());
  for (std::size_t i = 0; i < shard->states(); ++i) {
    const KeptMoment moment = shard->moment(unit, i);
    keep(moment.values + begin * each, count * each, master.kind, offset, stream);
    offset += count * each;
    const std::size_t scales = optim::moment_scales(shard->moments(), count) * sizeof(float);
    if (scales == 0) continue;
    keep(moment.scales + begin / optim::kMomentBlock, scales, master.kind, offset, stream);
    offset += scales;
  }
}

void UpdateSample::keep_old(ConstView gradient, std::uint64_t t, float gradient_scale, double clip,
                            StreamHandle stream) {
  kept_ = true;
  t_ = t;
  gradient_scale_ = gradient_scale;
  clip_ = clip;
  const ConstView part =
      gradient.part(sampled().shard->extent(sampled().unit).begin + window_.begin, window_.count);
  keep(part.data, part.bytes(), part.kind, 0, stream);
  keep_arrays(part.bytes(), stream);
}

void UpdateSample::keep_new(StreamHandle stream) const {
  keep_arrays(window_.count * sizeof(float) + array_bytes(window_.count), stream);
}

std::optional<std::size_t> UpdateSample::judge() {
  if (!std::exchange(kept_, false)) return std::nullopt;
  const auto& [shard, unit] = sampled();
  const std::size_t count = window_.count;
  std::byte* at = memory_.data() + count * sizeof(float);
  const std::byte* const old = at;
  UpdateRange range{.gradient = memory_.view(count, Dtype::fp32),
                    .compute_shard = {},
                    .master = View::of(reinterpret_cast<float*>(at), count)};
  at += count * sizeof(float);
  for (std::size_t i = 0; i < shard->states(); ++i) {
    std::byte* const scales = at + count * optim::moment_element_bytes(shard->moments());
    range.moments.push_back({at, reinterpret_cast<float*>(scales)});
    at += shard->kept().bytes_of_one(count);
  }
  shard->update_on_host(units_[unit], unit, window_.begin, range, t_, gradient_scale_, clip_);
  const bool same =
      std::memcmp(old, old + array_bytes(count), static_cast<std::size_t>(at - old)) == 0;
  return same ? std::nullopt : std::optional(unit);
}

}  // namespace zeropp::zero
