#include "lib/train/averaged_weights.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace zeropp::train {

void AveragedWeights::add(const zero::Engine& engine) {
  std::size_t next = 0;
  engine.visit_master([&](const checkpoint::Slice& slice, std::span<const std::byte> values) {
    if (next == parts_.size()) {
      parts_.push_back({slice, std::vector<double>(slice.count), std::vector<float>(slice.count)});
    }
    Part& part = parts_[next++];
    std::memcpy(part.last.data(), values.data(), values.size());
    std::ranges::transform(part.sum, part.last, part.sum.begin(),
                           [](double sum, float value) { return sum + value; });
  });
  ++count_;
}

const AveragedWeights::Part& AveragedWeights::part_of(const checkpoint::Slice& slice) const {
  const auto part = std::ranges::find_if(parts_, [&](const Part& each) {
    return each.slice.array == slice.array && each.slice.offset == slice.offset;
  });
  if (part == parts_.end()) throw std::logic_error("no average of " + slice.array);
  return *part;
}

void AveragedWeights::use_mean(zero::Engine& engine) const {
  engine.set_weights([&](const checkpoint::Slice& slice, std::span<std::byte> to) {
    std::vector<float> mean(slice.count);
    std::ranges::transform(part_of(slice).sum, mean.begin(), [&](double sum) {
      return static_cast<float>(sum / static_cast<double>(count_));
    });
    std::memcpy(to.data(), mean.data(), to.size());
  });
}

void AveragedWeights::use_last(zero::Engine& engine) const {
  engine.set_weights([&](const checkpoint::Slice& slice, std::span<std::byte> to) {
    std::memcpy(to.data(), part_of(slice).last.data(), to.size());
  });
}

}  // namespace zeropp::train
