#include "lib/plan/savings.hpp"

#include <fmt/format.h>

#include "kernels/codec/codec.hpp"
#include "lib/base/error.hpp"

namespace zeropp::plan {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ExitCode::usage, message); }

constexpr std::size_t kMostParameters = std::size_t{1} << 53;
constexpr std::size_t kMostRanks = std::size_t{1} << 31;

void require_within(std::string_view name, std::size_t value, std::size_t low, std::size_t high) {
  if (value < low || value > high) {
    refuse(fmt::format("{} is {}: give a number from {} to {}", name, value, low, high));
  }
}

}  // namespace

Passes parse_passes(std::string_view name) {
  if (const auto passes = parse_enum<Passes>(name)) return *passes;
  refuse(
      fmt::format("passes '{}' are unknown: name once (one gather, one reduce-scatter) or zero3 "
                  "(two gathers, one reduce-scatter)",
                  name));
}

Dtype parse_baseline(std::string_view name) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    if (name == name_of(dtype)) return dtype;
  }
  refuse(fmt::format("the baseline '{}' is unknown: name fp32, bf16 or fp16", name));
}

Savings savings(std::size_t model_params, std::size_t world_size, const SavingsConfig& config,
                Dtype baseline, Passes passes) {
  require_within("model_params", model_params, 1, kMostParameters);
  require_within("world_size", world_size, 2, kMostRanks);
  if (config.hpz && passes == Passes::once) {
    refuse(
        "hpz has no effect on passes once, which have no gather in backward: leave it out, or "
        "count the passes zero3");
  }
  if (config.weight_differences && passes == Passes::zero3 && !config.hpz) {
    refuse(
        "weight_differences are added to the copies that hpz keeps in every node: count with hpz, "
        "or leave them out");
  }
  if (config.exact_bits > 0 && (!config.weight_differences || baseline == Dtype::fp32)) {
    refuse(
        "exact_planned_bits are of weight_differences of 16-bit weights: count with "
        "weight_differences and the baseline bf16 or fp16, or leave them out");
  }
  const std::size_t part = (model_params + world_size - 1) / world_size;
  const auto pass = [&](const codec::CodecSpec& spec) {
    return static_cast<double>((world_size - 1) * codec::Codec(spec, baseline).wire_bytes(part));
  };
  const int gathers = passes == Passes::zero3 ? 2 : 1;
  const double plain = pass({}) * (gathers + 1);
  const codec::CodecSpec& sent = config.weight_differences ? config.differences : config.weights;
  const double exact = static_cast<double>((world_size - 1) * part) * config.exact_bits / 8;
  const double weights = config.exact_bits > 0 ? exact : pass(sent);
  const double compressed = weights * (gathers - (config.hpz ? 1 : 0)) + pass(config.gradients);
  return {.baseline_gb = plain / 1e9,
          .zero_plusplus_gb = compressed / 1e9,
          .reduction_factor = plain / compressed,
          .savings_percent = 100 * (1 - compressed / plain)};
}

std::vector<codec::CodecSpec> overview_codecs() {
  return {{"int8", 64, {}}, {"int6", 64, {}}, {"int4", 64, {}}};
}

std::vector<WidthRow> savings_table(std::span<const codec::CodecSpec> codecs) {
  // Images of so many values have no padding, and an image's own scale is lost in rounding.
  constexpr std::size_t kValues = std::size_t{1} << 32;
  std::vector<WidthRow> rows;
  for (const codec::CodecSpec& spec : codecs) {
    const codec::Codec codec(spec, Dtype::fp32);
    const auto bytes = static_cast<double>(codec.wire_bytes(kValues));
    const auto codes = static_cast<double>(codec.scale_offset(kValues));
    const double value = bytes / static_cast<double>(kValues);
    rows.push_back({.codec = codec.name(),
                    .bytes_per_value = value,
                    .scale_overhead = (bytes - codes) / codes,
                    .bytes_per_step = 2 * value,
                    .reduction_fp32 = 8 / (2 * value),
                    .reduction_16bit = 4 / (2 * value)});
  }
  return rows;
}

}  // namespace zeropp::plan
