#include "lib/zero/plan/codec_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "lib/base/error.hpp"

namespace zeropp::zero {

namespace {

/// The index of `value` in `list`, where it is put if it is not there.
template <class Value>
std::size_t index_in(std::vector<Value>& list, const Value& value) {
  const auto found = std::ranges::find(list, value);
  const auto index = static_cast<std::size_t>(found - list.begin());
  if (found == list.end()) list.push_back(value);
  return index;
}

bool fits(const std::string& pattern, const Unit& unit) {
  const auto matches = [&](const std::string& text) {
    return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
  };
  return matches(unit_kind(unit.name)) || matches(unit.name);
}

bool holds_for(const CodecEntry& entry, const Unit& unit) {
  return entry.units.empty() ||
         std::ranges::any_of(entry.units, [&](const auto& pattern) { return fits(pattern, unit); });
}

void check_patterns(const Options& options, const std::vector<Unit>& units) {
  for (std::size_t i = 0; i < options.codec_schedule.size(); ++i) {
    for (const std::string& pattern : options.codec_schedule[i].units) {
      if (std::ranges::any_of(units, [&](const Unit& unit) { return fits(pattern, unit); }))
        continue;
      std::vector<std::string> kinds;
      for (const Unit& unit : units) index_in(kinds, unit_kind(unit.name));
      throw Error(
          ExitCode::usage,
          fmt::format("zeropp.codec_schedule[{}].units: \"{}\" fits no unit of this model: "
                      "its kinds are {}, its units {} to {}",
                      i, pattern, fmt::join(kinds, ", "), units.front().name, units.back().name));
    }
  }
}

std::vector<GradientCodecs> on_both_hops(const std::vector<codec::CodecSpec>& codecs) {
  std::vector<GradientCodecs> both;
  both.reserve(codecs.size());
  for (const codec::CodecSpec& codec : codecs) both.push_back({codec, codec});
  return both;
}

}  // namespace

CodecTable::CodecTable(const Options& options, const std::vector<Unit>& units)
    : refresh_interval_(options.weight_differences.refresh_interval),
      steps_ahead_(options.refreshes_differences() ? 1 : 0) {
  check_patterns(options, units);
  std::vector<std::vector<GradientCodecs>> over_steps;  // of each group
  for (const Unit& unit : units) {
    UnitCodecs codecs;
    codec::CodecSpec weights =
        options.quantized_weights ? options.weight_codec : codec::CodecSpec{};
    GradientCodecs gradients =
        options.quantized_gradients
            ? GradientCodecs{options.gradient_codec_intra, options.gradient_codec_inter}
            : GradientCodecs{};
    std::set<std::size_t> steps{0};
    for (const CodecEntry& entry : options.codec_schedule) steps.insert(entry.from_step);
    std::vector<GradientCodecs> of_steps;
    for (const std::size_t step : steps) {
      for (const CodecEntry& entry : options.codec_schedule) {
        if (entry.from_step != step || !holds_for(entry, unit)) continue;
        weights = entry.weight_codec.value_or(weights);
        gradients.intra = entry.gradient_codec_intra.value_or(gradients.intra);
        gradients.inter = entry.gradient_codec_inter.value_or(gradients.inter);
      }
      codecs.weight_changes.push_back({step, index_in(codecs.weights, weights)});
      codecs.gradient_changes.push_back({step, index_in(codecs.gradients, gradients)});
      of_steps.push_back(gradients);
    }
    const AdaptiveBitsOptions& adaptive = options.adaptive_bits;
    if (adaptive.values == AdaptedValues::weights) codecs.weights = adaptive_codecs(adaptive);
    if (adaptive.values == AdaptedValues::gradients) {
      codecs.gradients = on_both_hops(adaptive_codecs(adaptive));
      groups_.push_back(groups_.size());  // every unit is chosen for alone
    } else {
      groups_.push_back(index_in(over_steps, of_steps));
    }
    units_.push_back(std::move(codecs));
  }
}

std::size_t CodecTable::index_at(const std::vector<Change>& changes, std::uint64_t step) {
  const auto after = std::ranges::upper_bound(changes, step, {}, &Change::step);
  return std::prev(after)->index;
}

CodecChoice CodecTable::at(std::uint64_t step) const {
  CodecChoice choice;
  choice.whole_weights = refreshes_at(step);
  for (const UnitCodecs& unit : units_) {
    choice.weights.push_back(index_at(unit.weight_changes, step));
    choice.gradients.push_back(index_at(unit.gradient_changes, step));
  }
  return choice;
}

bool codecs_vary(const Options& options) {
  return !options.codec_schedule.empty() || options.adaptive_bits.values != AdaptedValues::none;
}

std::vector<codec::CodecSpec> adaptive_codecs(const AdaptiveBitsOptions& options) {
  std::vector<codec::CodecSpec> codecs;
  for (std::size_t bits = options.minimum_bits; bits <= options.maximum_bits; ++bits) {
    codecs.push_back(codec::validated({fmt::format("int{}", bits), options.block, {}}));
  }
  return codecs;
}

std::size_t gradient_block(const Options& options) {
  if (!options.quantized_gradients) return 1;
  if (options.adaptive_bits.values == AdaptedValues::gradients) return options.adaptive_bits.block;
  std::size_t block =
      std::max(options.gradient_codec_intra.block, options.gradient_codec_inter.block);
  for (const CodecEntry& entry : options.codec_schedule) {
    for (const auto& codec : {entry.gradient_codec_intra, entry.gradient_codec_inter}) {
      if (codec) block = std::max(block, codec->block);
    }
  }
  return std::max<std::size_t>(block, 1);
}

}  // namespace zeropp::zero
