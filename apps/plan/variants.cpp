#include "apps/plan/variants.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/in_parallel.hpp"
#include "lib/base/log.hpp"
#include "lib/data/token_source.hpp"

namespace zeropp::plan_app {

namespace {

constexpr std::array<std::string_view, 4> kTurned{
    "zero_optimization.zero_quantized_weights", "zero_optimization.zero_hpz_partition_size",
    "zero_optimization.zero_quantized_gradients", "zeropp.exact_differences"};

const codec::CodecSpec kInt8{"int8", 256, {}};

void warn_of_turned(const std::vector<config::Option>& given, std::string_view command) {
  std::vector<std::string> named;
  for (const config::Option& option : given) {
    const bool turned = std::ranges::find(kTurned, option.path) != kTurned.end();
    if (turned && (option.given || option.is_automatic)) named.push_back(option.path);
  }
  if (named.empty()) return;
  log::warn(
      fmt::format("{} turns qwZ, hpZ (over the ranks of a node), qgZ and exact differences on and "
                  "off itself: {} left out of account",
                  command, fmt::join(named, ", ")));
}

void require_stage_3(const config::TrainConfig& config, std::string_view command) {
  if (config.zero.stage == 3) return;
  throw Error(ExitCode::usage,
              fmt::format("zero_optimization.stage {}: {} compares with ZeRO-3, which hpZ "
                          "needs: give --zero-stage 3",
                          config.zero.stage, command));
}

/// Adds to made.others what `add` adds. Where the trainer refuses some of it, nothing is added but
/// the refusal of `rows`.
template <class Add>
void add_unless_refused(Variants& made, std::string_view rows, const Add& add) {
  const std::size_t before = made.others.size();
  try {
    add();
  } catch (const Error& refusal) {
    if (refusal.code() != ExitCode::usage) throw;
    made.others.erase(made.others.begin() + static_cast<std::ptrdiff_t>(before), made.others.end());
    made.refused.push_back({rows, refusal.what()});
  }
}

/// Adds the configurations that are no parts of ZeRO++ to `made`. `job` has all parts on.
void add_others(Variants& made, const Job& job, bool exact_asked, const comm::Topology& topology,
                const std::vector<config::Option>& given, const config::Machine& machine) {
  const config::TrainConfig& base = job.config;
  const auto add = [&](std::string_view name, config::TrainConfig config) {
    config::resolve(config, given, machine);
    const std::size_t step =
        config::is_given(given, "plan.step") ? job.step : plan::ordinary_step(config.zero);
    made.others.push_back({name, std::move(config), step});
  };
  if (!base.zero.weight_differences.enabled) {
    add_unless_refused(made, "+differences", [&] {
      config::TrainConfig config = base;
      config.zero.weight_differences.enabled = true;
      add(kDifferences, std::move(config));
    });
  }
  if ((exact_asked || !base.zero.weight_differences.enabled) &&
      config::compute_dtype(base) != Dtype::fp32) {
    add_unless_refused(made, "+exact", [&] {
      config::TrainConfig config = base;
      config.zero.quantized_weights = false;
      config.zero.weight_differences.enabled = config.zero.weight_differences.exact = true;
      config::TrainConfig whole = config;
      whole.zero.quantized_gradients = false;
      add(kExact, std::move(whole));
      add(kExactQgz, config);
      if (config::is_given(given, "zeropp.gradient_codec_intra") ||
          config::is_given(given, "zeropp.gradient_codec_inter")) {
        return;
      }
      config.zero.gradient_codec_intra = config.zero.gradient_codec_inter = kInt8;
      add(kExactInt8, std::move(config));
    });
  }
  config::TrainConfig plain = base;
  plain.zero.quantized_weights = plain.zero.quantized_gradients = false;
  plain.zero.hpz_partition_size = 1;
  plain.zero.weight_differences.enabled = false;
  if (topology.ranks_per_node > 1) {
    add_unless_refused(made, "hybrid", [&] {
      for (const Hybrid& hybrid : kHybrids) {
        config::TrainConfig config = plain;
        config.zero.quantized_gradients = hybrid.qgz;
        config.zero.shard_group_size = static_cast<std::size_t>(topology.ranks_per_node);
        add(hybrid.name, std::move(config));
      }
    });
  }
  for (const LowerStage& lower : kLowerStages) {
    add_unless_refused(made, lower.name, [&] {
      config::TrainConfig config = plain;
      config.zero.stage = lower.stage;
      add(lower.name, std::move(config));
    });
  }
}

}  // namespace

bool is_lower_stage(std::string_view name) {
  return std::ranges::find(kLowerStages, name, &LowerStage::name) != kLowerStages.end();
}

const config::TrainConfig& config_of(const Variants& variants, std::string_view name) {
  const auto other = std::ranges::find(variants.others, name, &Other::name);
  if (other != variants.others.end()) return other->config;
  const auto feature = std::ranges::find(kFeatures, name, &Feature::name);
  return variants.features.at(static_cast<std::size_t>(feature - kFeatures.begin()));
}

config::Option gain_option(double& gain) {
  return {.path = "plan.gain",
          .flag = "--gain",
          .field = &gain,
          .help = "Share by which a step has to be shorter to pay",
          .range = {.minimum = 0, .maximum = 1, .maximum_excluded = true}};
}

Variants variants_of(ClusterJob& asked, const comm::Topology& topology,
                     const std::vector<config::Option>& given, std::string_view command) {
  config::TrainConfig& base = asked.job.config;
  warn_of_turned(given, command);
  require_stage_3(base, command);
  // All are on in the base, so that codecs, and what else was given of them, are in effect.
  base.zero.quantized_weights = true;
  base.zero.quantized_gradients = true;
  // These have a row of their own; the parts of ZeRO++ then have the other differences.
  const bool exact_asked = std::exchange(base.zero.weight_differences.exact, false);
  base.zero.hpz_partition_size = static_cast<std::size_t>(topology.ranks_per_node);
  const config::Machine machine = machine_for(asked, topology);
  Variants made;
  for (const Feature& feature : kFeatures) {
    config::TrainConfig config = base;
    config.zero.quantized_weights = feature.qwz;
    config.zero.quantized_gradients = feature.qgz;
    config.zero.hpz_partition_size =
        feature.hpz ? static_cast<std::size_t>(topology.ranks_per_node) : 1;
    config.zero.weight_differences.enabled =
        base.zero.weight_differences.enabled && feature.qwz && feature.hpz;
    config::resolve(config, given, machine);
    made.features.push_back(std::move(config));
  }
  add_others(made, asked.job, exact_asked, topology, given, machine);
  made.vendors = made.features.front();
  made.vendors.zero.all_gather_algorithm = "native";
  // The vendor's sums are not the same in every run, and the trainer refuses them.
  if (!base.zero.deterministic) made.vendors.zero.reduce_scatter_algorithm = "native";
  if (made.vendors.zero.shard_group_size == zero::kAllRanks) made.vendors.rail_lanes = 1;
  base = made.features.back();
  return made;
}

plan::PlannedRun planned(const config::TrainConfig& config, const comm::Topology& topology,
                         std::size_t step) {
  plan::PlannedRun run(config, topology, data::vocab_size(config.data));
  run.plan_step(step);
  return run;
}

PlannedVariants planned(const Variants& variants, const comm::Topology& topology,
                        std::size_t step) {
  PlannedVariants made;
  made.features = in_parallel(variants.features.size(), [&](std::size_t index) {
    return planned(variants.features[index], topology, step);
  });
  made.baselines.push_back(planned(variants.vendors, topology, step));
  made.baselines.push_back(planned(variants.features.front(), topology, step));
  return made;
}

}  // namespace zeropp::plan_app
