// Record that is kept of a finished run: a row of /runs and the rows of the other groups that
// belong to it. Written to a file of its own as soon as the run ends (run_store.hpp), and into the
// trace.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/trace/recorder.hpp"

namespace zeropp::converge {

inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// Row of one step, as in /steps of the trainer's trace.
struct CurveRow {
  double loss = 0;
  double grad_norm = 0;
  std::uint64_t skipped = 0;
};

struct HeldOutRow {
  std::uint64_t step = 0;  ///< steps before it
  double loss = 0;         ///< nats per token
};

/// Distance of the quadratic's weights from the closed form after `step` steps, and its bound.
struct DistanceRow {
  std::uint64_t step = 0;
  double distance = 0;
  double bound = 0;
};

/// Summary of the distances of every step of the quadratic.
struct DistanceSummary {
  std::uint64_t violations = 0;   ///< steps beyond the bound
  double largest_ratio = 0;       ///< of distance to bound
  std::uint64_t steps = 0;        ///< that were looked at; 0: the level is another
  std::vector<DistanceRow> rows;  ///< some of them
};

struct RunRecord {
  std::string setting;  ///< its name
  std::uint64_t seed = 0;
  std::uint64_t world_size = 0;
  std::uint64_t node_size = 0;
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  double final_train_loss = kNotANumber;     ///< mean of the steps taken among the last tenth
  double final_held_out_loss = kNotANumber;  ///< nats per token
  double bits_per_byte = kNotANumber;        ///< where tokens are bytes
  double seconds = 0;
  double seconds_per_step = 0;         ///< median
  std::uint64_t bytes_inter_node = 0;  ///< of a step, sum over ranks: the lower median
  std::uint64_t bytes_predicted_inter_node = 0;
  std::string data_hash;  ///< of tokens, seed and batches: equal where the data order was
  std::string parameters_hash;
  std::string verdict;    ///< "VALID", or "INVALID: reason"
  bool diverged = false;  ///< INVALID because losses or gradients are not finite
  std::vector<CurveRow> curve;
  std::vector<HeldOutRow> evaluations;
  std::vector<double> held_out_parts;   ///< losses of the last evaluation, by part of the data
  std::vector<trace::ErrorRow> errors;  ///< where the setting measures them
  DistanceSummary quadratic;
};

void to_json(nlohmann::json& json, const RunRecord& record);
/// Throws nlohmann::json::exception where a key is missing or of another type.
void from_json(const nlohmann::json& json, RunRecord& record);

}  // namespace zeropp::converge
