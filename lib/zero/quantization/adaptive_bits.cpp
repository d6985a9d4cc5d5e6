#include "lib/zero/quantization/adaptive_bits.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/status.hpp"
#include "lib/zero/quantization/bit_allocation.hpp"

namespace zeropp::zero {

AdaptiveBits::AdaptiveBits(const Options& options, const std::vector<UnitPartition>& units,
                           WidthCosts costs, comm::Control& control, const Device& device,
                           trace::Recorder& recorder)
    : options_(options.adaptive_bits),
      costs_(std::move(costs)),
      control_(control),
      recorder_(recorder),
      errors_(adaptive_codecs(options_), of_weights() ? options.compute : Dtype::fp32, units,
              static_cast<std::size_t>(control.rank()), device) {}

void AdaptiveBits::agree() {
  const std::size_t widths = options_.maximum_bits - options_.minimum_bits + 1;
  std::vector<std::uint64_t> sums{costs_.of_budget_codec};
  for (const auto& unit : costs_.bytes) sums.insert(sums.end(), unit.begin(), unit.end());
  control_.all_reduce_sum(std::span<std::uint64_t>(sums));
  budget_ = options_.budget_bytes > 0 ? options_.budget_bytes : sums.front();
  std::vector<std::uint64_t> uniform(widths, 0);
  for (std::size_t u = 0; u < costs_.bytes.size(); ++u) {
    for (std::size_t i = 0; i < widths; ++i) {
      costs_.bytes[u][i] = sums[1 + u * widths + i];
      uniform[i] += costs_.bytes[u][i];
    }
  }
  control_.agree(status_of([&] { require_budget(uniform.front()); }));
  recorder_.width_budget = budget_;
  std::size_t widest = 0;
  while (widest + 1 < widths && uniform[widest + 1] <= budget_) ++widest;
  choice_.assign(costs_.bytes.size(), widest);
}

void AdaptiveBits::require_budget(std::uint64_t bytes) const {
  if (bytes <= budget_) return;
  throw Error(ExitCode::usage,
              fmt::format("zeropp.adaptive_bits: a step sends {} bytes of {} with {} bits "
                          "everywhere, more than the budget of {}: raise budget_bytes (or take a "
                          "wider budget_codec), or lower minimum_bits",
                          bytes, enum_name(options_.values), options_.minimum_bits, budget_));
}

void AdaptiveBits::choose(std::uint64_t step, const Stream& stream) {
  std::vector<double> sums;
  for (const auto& unit : errors_.measure(stream))
    sums.insert(sums.end(), unit.begin(), unit.end());
  control_.all_reduce_sum(std::span<double>(sums));
  std::vector<std::vector<BitOption>> units;
  bool finite = true;
  auto error = sums.begin();
  for (const auto& unit : costs_.bytes) {
    units.emplace_back();
    for (const std::uint64_t bytes : unit) {
      finite = finite && std::isfinite(*error);
      units.back().push_back({bytes, *error++});
    }
  }
  // Errors that are no numbers compare with nothing: what was chosen stays.
  if (finite) choice_ = allocate_bits(units, budget_).value();
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t i = 0; i < units[u].size(); ++i) {
      recorder_.widths.push_back({.step = step,
                                  .unit = u,
                                  .bits = options_.minimum_bits + i,
                                  .error = units[u][i].error,
                                  .bytes = units[u][i].bytes,
                                  .chosen = choice_[u] == i ? std::uint64_t{1} : 0});
    }
  }
}

std::vector<std::uint64_t> AdaptiveBits::bits() const {
  std::vector<std::uint64_t> bits;
  bits.reserve(choice_.size());
  for (const std::size_t index : choice_) bits.push_back(options_.minimum_bits + index);
  return bits;
}

bool AdaptiveBits::restore(std::span<const std::uint64_t> bits) {
  if (bits.size() != choice_.size()) return false;
  std::vector<std::size_t> choice;
  std::uint64_t bytes = 0;
  for (std::size_t u = 0; u < bits.size(); ++u) {
    if (bits[u] < options_.minimum_bits || bits[u] > options_.maximum_bits) return false;
    choice.push_back(bits[u] - options_.minimum_bits);
    bytes += costs_.bytes[u][choice.back()];
  }
  if (bytes > budget_) return false;
  choice_ = std::move(choice);
  return true;
}

void AdaptiveBits::overlay(CodecChoice& choice) const {
  (of_weights() ? choice.weights : choice.gradients) = choice_;
}

}  // namespace zeropp::zero
