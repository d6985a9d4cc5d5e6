// Comparison of ZeRO-3 with each part of ZeRO++, with weight differences and with hybrid sharding:
// what these save of a step, and with rates how long steps take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "apps/plan/variants.hpp"
#include "lib/config/deepspeed_reports.hpp"
#include "lib/plan/break_even.hpp"

namespace zeropp::plan_app {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Row of one feature, or of what is no part of ZeRO++. Times are kUnknown without a cluster.
struct ComparedRow {
  std::string feature;            ///< of kFeatures, or as of Other
  std::uint64_t out_of_node = 0;  ///< bytes that leave one node in a step
  double reduction = 1;           ///< bytes of ZeRO-3 over out_of_node
  std::uint64_t memory = 0;       ///< bytes of a rank on its device
  double seconds = kUnknown;      ///< of a step
  double speedup = kUnknown;      ///< over ZeRO-3
  double link_rate = kUnknown;    ///< bytes/s: the fastest link with which it pays
  std::string bound = {};         ///< what takes the largest part of a step; empty without times
  std::vector<plan::Rates> pays = {};  ///< as pays_where()
  config::DeepSpeedNeed deepspeed = {};
};

/// Row of a step whose micro-steps run one after the other: DeepSpeed's. The secondary copy of hpZ
/// that the first makes serves the others. Times are by the cluster's engine, kUnknown without a
/// cluster.
struct InTurnRow {
  std::string feature;            ///< of kFeatures, the first of kHybrids, or of kLowerStages
  std::uint64_t out_of_node = 0;  ///< bytes that leave one node in a step
  double reduction = 1;           ///< bytes of ZeRO-3 over out_of_node
  double seconds = kUnknown;
  double speedup = kUnknown;  ///< over ZeRO-3
};

struct Comparison {
  std::size_t parameters = 0;
  double tokens_per_step = 0;       ///< over all ranks
  std::vector<ComparedRow> rows;    ///< in the order of kFeatures
  std::vector<ComparedRow> others;  ///< as of Variants
  std::vector<Refused> refused;     ///< as of Variants
  /// In the order of kFeatures, then hybrid sharding and lower stages that have a row.
  std::vector<InTurnRow> in_turn;
};

/// All rows, those of no part of ZeRO++ last.
std::vector<ComparedRow> all_rows(const Comparison& comparison);

/// Compares the variants. `cluster` is null where no rates are known. `memory`: bytes that a rank
/// may take, 0 where nobody says: lower stages that need more have no row. Throws Error.
Comparison compare(const Variants& variants, const comm::Topology& topology,
                   const plan::Cluster* cluster, std::size_t step, double gain, double memory);

}  // namespace zeropp::plan_app
