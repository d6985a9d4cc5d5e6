// A fabric's map for people and for programs: text in the way of nccl-tests (comments begin with
// "#"), a JSON object of the sweep's family, a trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fabric/hosts.hpp"
#include "apps/fabric/judge.hpp"
#include "apps/fabric/options.hpp"
#include "lib/app/placement.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/world.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::fabric {

/// All that was found; on rank 0.
struct FabricReport {
  FabricMap map;
  PairTest pair_test = PairTest::exchange;
  double threshold = 0;  ///< that was judged by
  Judgement judgement;
  std::vector<app::RankPlace> places;  ///< by rank
  std::vector<std::string> mistakes;   ///< of the placement
  std::vector<std::string> hosts;      ///< by rank
  Hosts sorted_hosts;                  ///< those to use, those to drain

  /// "VALID", "INVALID: reason", or "INCOMPLETE: reason" where nothing is slow among the pairs that
  /// were measured. Mistakes of the placement do not fail by themselves: what they cost is
  /// measured.
  [[nodiscard]] std::string verdict() const;
  /// ok, check_failed or undecided, as the verdict says.
  [[nodiscard]] ExitCode code() const;
  /// Pairs and rails that were not measured, and ranks whose processors were busy: "4 of 10 pairs
  /// of ranks were not measured (0-2, 0-3, 1-2, 1-3)"; empty: all were.
  [[nodiscard]] std::string missing() const;
};

/// A line for each rank whose processors other work had.
std::vector<std::string> busy_mistakes(const FabricReport& report);
std::string mistakes_text(const std::vector<std::string>& mistakes);

/// Text before the measurement: the run, the ranks' places, the interfaces, the mistakes.
std::string placement_text(const std::vector<app::RankPlace>& places,
                           const std::vector<std::string>& mistakes, const trace::TraceData& run,
                           const comm::World& world);
/// Text after the measurement: matrices (of up to 32 ranks), rails, what is typical, what is slow,
/// the verdict.
std::string fabric_text(const FabricReport& report, const Options& options);

/// JSON of the report; docs/operators/fabric.md has the keys.
nlohmann::json fabric_json(const FabricReport& report, const trace::TraceData& run);

/// The head of every trace, /fabric, /fabric_rails, /fabric_typical, /fabric_faults, /placement and
/// /interfaces.
trace::Document fabric_document(const FabricReport& report, const trace::TraceData& run);

}  // namespace zeropp::fabric
