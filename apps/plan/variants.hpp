// ZeRO-3 without and with the parts of ZeRO++, for the commands that compare them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "apps/plan/cluster_job.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::plan_app {

/// Parts of ZeRO++ that are on.
struct Feature {
  std::string_view name;
  bool qwz;
  bool hpz;
  bool qgz;
};
inline constexpr std::array<Feature, 7> kFeatures{{{"none", false, false, false},
                                                   {"qwZ", true, false, false},
                                                   {"hpZ", false, true, false},
                                                   {"qgZ", false, false, true},
                                                   {"qwZ+qgZ", true, false, true},
                                                   {"hpZ+qgZ", false, true, true},
                                                   {"all", true, true, true}}};

/// All parts of ZeRO++, with weight differences instead of weights.
inline constexpr std::string_view kDifferences = "all+differences";
/// hpZ with exact weight differences, with qgZ, and with gradients in 8 bits on both hops.
inline constexpr std::string_view kExact = "hpZ+exact";
inline constexpr std::string_view kExactQgz = "hpZ+qgZ+exact";
inline constexpr std::string_view kExactInt8 = "hpZ+qgZ+exact+int8";

/// Hybrid sharding, which shards everything over the ranks of a node, without and with qgZ.
struct Hybrid {
  std::string_view name;
  bool qgz;
};
inline constexpr std::array<Hybrid, 2> kHybrids{{{"hybrid", false}, {"hybrid+qgZ", true}}};

/// Stages that shard less, without parts of ZeRO++.
struct LowerStage {
  std::string_view name;
  int stage;
};
inline constexpr std::array<LowerStage, 2> kLowerStages{{{"stage 2", 2}, {"stage 1", 1}}};
/// Whether a row is of one of these.
bool is_lower_stage(std::string_view name);

/// A configuration that is no part of ZeRO++: kDifferences, kExact, kExactQgz, kExactInt8, one of
/// kHybrids or of kLowerStages.
struct Other {
  std::string_view name;
  config::TrainConfig config;
  std::size_t step;  ///< steps before the one that is planned
};

/// Rows that the trainer refuses, and what it says.
struct Refused {
  std::string_view rows;
  std::string why;
};

struct Variants {
  /// Configurations in the order of kFeatures, resolved: the first is ZeRO-3.
  std::vector<config::TrainConfig> features;
  /// kDifferences, unless all parts have differences already; of 16-bit weights kExact and
  /// kExactQgz, unless they have and these were not asked for, and kExactInt8, unless codecs of
  /// gradients are given; then kHybrids in their order, unless a node has one rank, and
  /// kLowerStages; without those that the trainer refuses.
  std::vector<Other> others;
  std::vector<Refused> refused;
  /// ZeRO-3 over the vendor's collectives, which are faster on fast links; of a deterministic job
  /// over its all-gather alone.
  config::TrainConfig vendors;
};

/// The configuration of a row.
const config::TrainConfig& config_of(const Variants& variants, std::string_view name);

/// --gain, which the commands share.
config::Option gain_option(double& gain);

/// Warns of what `given` says of the parts that `command` turns on and off itself. `topology`: of
/// the job, whose codecs are in effect in the end. Throws Error, also at another stage than 3.
Variants variants_of(ClusterJob& asked, const comm::Topology& topology,
                     const std::vector<config::Option>& given, std::string_view command);

/// Plans a run with the codecs of the step after `step` others.
plan::PlannedRun planned(const config::TrainConfig& config, const comm::Topology& topology,
                         std::size_t step);

/// The variants planned likewise.
struct PlannedVariants {
  std::vector<plan::PlannedRun> features;   ///< in the order of kFeatures
  std::vector<plan::PlannedRun> baselines;  ///< the vendor's ZeRO-3, and the first of the features
};
PlannedVariants planned(const Variants& variants, const comm::Topology& topology, std::size_t step);

}  // namespace zeropp::plan_app
