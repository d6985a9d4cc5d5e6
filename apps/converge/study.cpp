#include "apps/converge/study.hpp"

#include <fmt/format.h>

#include "lib/trace/document.hpp"

namespace zeropp::converge {

namespace {

using trace::column;
using trace::Group;

/// Share of its bound below which the largest distance shows that the bound says nothing.
constexpr double kMeaningful = 0.05;

/// A row of a run with the run's number.
template <class Row>
struct OfRun {
  std::uint64_t run;
  std::uint64_t index;  ///< among the run's rows
  const Row* row;
};

template <class Rows>
auto rows_of(const std::vector<RunRecord>& runs, const Rows& rows) {
  using Row = typename std::decay_t<decltype(rows(runs.front()))>::value_type;
  std::vector<OfRun<Row>> all;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::uint64_t index = 0;
    for (const Row& row : rows(runs[run])) all.push_back({run, index++, &row});
  }
  return all;
}

template <class Member>
auto of(Member member) {
  return [member](const auto& of_run) { return of_run.row->*member; };
}

Group settings_group(const std::vector<SettingRow>& rows) {
  using Row = SettingRow;
  return {
      "settings",
      {},
      {column("name", "", "Unique in the matrix", rows, &Row::name),
       column("level", "", "quadratic, markov, text or contract", rows, &Row::level),
       column("model", "", "Name, layers x width", rows, &Row::model),
       column("stage", "", "ZeRO stage", rows, &Row::stage),
       column("weight_codec", "", "Of qwZ; none without; schedule or adaptive where it changes",
              rows, &Row::weight_codec),
       column("gradient_codec_intra", "", "Of qgZ's first hop; likewise", rows,
              &Row::gradient_codec_intra),
       column("gradient_codec_inter", "", "Of its second hop", rows, &Row::gradient_codec_inter),
       column("reduce_scatter", "", "Algorithm that ran", rows, &Row::reduce_scatter),
       column("hpz", "", "Ranks of a secondary partition; 1: off", rows, &Row::hpz),
       column("feedback", "", "Error feedback: off, or its parameters", rows, &Row::feedback),
       column("optimizer", "", "Its type", rows, &Row::optimizer),
       column("weight_bits", "bits per parameter",
              "Sent in one gather, or exchange of differences, scales included; NaN: not told by "
              "the configuration",
              rows, &Row::weight_bits),
       column(
           "gradient_bits", "bits per parameter",
           "Sent in one reduce-scatter; of two hops the mean over the values sent; NaN: likewise",
           rows, &Row::gradient_bits),
       column("baseline", "", "Setting that it is compared with; empty: none", rows,
              &Row::baseline),
       column("config_json", "", "Effective configuration of its first run", rows,
              &Row::config_json)}};
}

Group runs_group(const Study& study) {
  const auto& rows = study.runs;
  using Row = RunRecord;
  std::vector<std::uint64_t> settings;
  settings.reserve(study.plan.runs.size());
  for (const StudyRun& run : study.plan.runs) settings.push_back(run.setting);
  return {"runs",
          {},
          {trace::Column{"setting", "", "Row of /settings", settings},
           column("seed", "", "Of initial weights and data order", rows, &Row::seed),
           column("world_size", "", "Ranks", rows, &Row::world_size),
           column("node_size", "", "Ranks a node", rows, &Row::node_size),
           column("steps", "steps", "Done", rows, &Row::steps),
           column("skipped", "steps", "With a gradient that is not finite", rows, &Row::skipped),
           column("final_train_loss", "nats per token", "Mean of the last tenth of the steps", rows,
                  &Row::final_train_loss),
           column("final_held_out_loss", "nats per token", "After the last step; NaN: none", rows,
                  &Row::final_held_out_loss),
           column("bits_per_byte", "bits per byte", "Of it; NaN where tokens are no bytes", rows,
                  &Row::bits_per_byte),
           column("seconds", "s", "Of the whole run", rows, &Row::seconds),
           column("seconds_per_step", "s", "Median", rows, &Row::seconds_per_step),
           column("bytes_inter_node", "bytes", "Sent across nodes in a step, all ranks; median",
                  rows, &Row::bytes_inter_node),
           column("bytes_predicted_inter_node", "bytes", "The same in closed form", rows,
                  &Row::bytes_predicted_inter_node),
           column("data_hash", "", "Of tokens, seed and batches: the data order", rows,
                  &Row::data_hash),
           column("parameters_hash", "", "SHA-256 of the final master weights", rows,
                  &Row::parameters_hash),
           column("verdict", "", "VALID, or INVALID: reason", rows, &Row::verdict)}};
}

Group steps_group(const std::vector<RunRecord>& runs) {
  using Row = CurveRow;
  const auto rows = rows_of(
      runs, [](const RunRecord& r) -> const auto& { return r.curve; });
  using Line = OfRun<Row>;
  return {
      "steps",
      {},
      {column("run", "", "Row of /runs", rows, &Line::run),
       column("step", "steps", "Steps before it", rows, &Line::index),
       column("loss", "nats per token", "Mean over ranks and micro-steps", rows, of(&Row::loss)),
       column("grad_norm", "1", "Global norm of the mean gradient, before clipping", rows,
              of(&Row::grad_norm)),
       column("skipped", "bool", "1: no rank stepped", rows, of(&Row::skipped))}};
}

Group evaluations_group(const std::vector<RunRecord>& runs) {
  using Row = HeldOutRow;
  const auto rows = rows_of(
      runs, [](const RunRecord& r) -> const auto& { return r.evaluations; });
  return {"evaluations",
          {},
          {column("run", "", "Row of /runs", rows, &OfRun<Row>::run),
           column("step", "steps", "Steps before it", rows, of(&Row::step)),
           column("loss", "nats per token", "On held-out data", rows, of(&Row::loss))}};
}

Group parts_group(const std::vector<RunRecord>& runs) {
  const auto rows = rows_of(
      runs, [](const RunRecord& r) -> const auto& { return r.held_out_parts; });
  using Line = OfRun<double>;
  return {"held_out_parts",
          {},
          {column("run", "", "Row of /runs", rows, &Line::run),
           column("part", "", "Of the held-out data, in their order", rows, &Line::index),
           column("loss", "nats per token", "On it, after the last step", rows,
                  [](const Line& line) { return *line.row; })}};
}

Group errors_group(const std::vector<RunRecord>& runs) {
  using Row = trace::ErrorRow;
  const auto rows = rows_of(
      runs, [](const RunRecord& r) -> const auto& { return r.errors; });
  return {
      "errors",
      {},
      {column("run", "", "Row of /runs", rows, &OfRun<Row>::run),
       column("step", "steps", "Steps before it", rows, of(&Row::step)),
       column("kind", "", "weights or gradients", rows, of(&Row::kind)),
       column("unit_kind", "", "Of units of this kind", rows, of(&Row::unit_kind)),
       column("relative_l2", "1", "Norm of the error over that of the exact values", rows,
              of(&Row::relative_l2)),
       column("cosine", "1", "Of the angle between used and exact values", rows, of(&Row::cosine)),
       column("largest", "1", "Largest error over the largest exact value, of magnitudes", rows,
              of(&Row::largest)),
       column("norm_ratio", "1", "Norm of the used values over that of the exact ones", rows,
              of(&Row::norm_ratio))}};
}

Group distances_group(const std::vector<RunRecord>& runs) {
  using Row = DistanceRow;
  const auto rows = rows_of(
      runs, [](const RunRecord& r) -> const auto& { return r.quadratic.rows; });
  return {"quadratic",
          {},
          {column("run", "", "Row of /runs", rows, &OfRun<Row>::run),
           column("step", "steps", "Steps before it", rows, of(&Row::step)),
           column("distance", "1", "From the closed-form trajectory", rows, of(&Row::distance)),
           column("bound", "1", "Of it, that the codecs imply", rows, of(&Row::bound))}};
}

Group distance_summaries_group(const std::vector<RunRecord>& runs) {
  struct Line {
    std::uint64_t run;
    const DistanceSummary* row;
  };
  std::vector<Line> rows;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (runs[run].quadratic.steps > 0) rows.push_back({run, &runs[run].quadratic});
  }
  using Row = DistanceSummary;
  return {"quadratic_runs",
          {},
          {column("run", "", "Row of /runs", rows, &Line::run),
           column("violations", "steps", "Beyond the bound", rows, of(&Row::violations)),
           column("largest_ratio", "1", "Of distance to bound", rows, of(&Row::largest_ratio)),
           column("steps", "steps", "That were looked at: all", rows, of(&Row::steps))}};
}

Group checks_group(const std::vector<CheckRow>& rows) {
  using Row = CheckRow;
  return {"checks",
          {},
          {column("name", "", "Contract", rows, &Row::name),
           column("first", "", "Row of /runs", rows, &Row::first),
           column("second", "", "Row of /runs", rows, &Row::second),
           column("difference", "1",
                  "0: identical parameters; else the relative one of final training losses", rows,
                  &Row::difference),
           column("limit", "1", "That it may have", rows, &Row::limit),
           column("passed", "bool", "1: within it", rows,
                  [](const Row& row) { return std::uint64_t{row.passed}; })}};
}

std::string describe(const RunRecord& run) {
  return fmt::format("setting {}, seed {}", run.setting, run.seed);
}

}  // namespace

std::string verdict_of(const Study& study) {
  for (const RunRecord& run : study.runs) {
    if (!trace::is_valid(run.verdict) && !run.diverged) {
      return fmt::format("INVALID: {}: {}", describe(run), run.verdict);
    }
    const DistanceSummary& quadratic = run.quadratic;
    if (quadratic.violations > 0) {
      return fmt::format("INVALID: {}: left its bound in {} of {} steps", describe(run),
                         quadratic.violations, quadratic.steps);
    }
    if (quadratic.steps > 0 && quadratic.largest_ratio < kMeaningful) {
      return fmt::format(
          "INVALID: {}: the largest distance is {:.3g} of its bound, which is too loose to check "
          "anything",
          describe(run), quadratic.largest_ratio);
    }
  }
  for (const CheckRow& check : study.checks) {
    if (check.passed) continue;
    return fmt::format("INVALID: check {} of {} and {}: differ by {:.3g}, allowed is {:.3g}",
                       check.name, describe(study.runs[check.first]),
                       describe(study.runs[check.second]), check.difference, check.limit);
  }
  return "VALID";
}

std::vector<Group> groups_of(const Study& study) {
  std::vector<Group> groups{settings_group(study.plan.rows), runs_group(study),
                            steps_group(study.runs),         evaluations_group(study.runs),
                            parts_group(study.runs),         errors_group(study.runs),
                            distances_group(study.runs),     distance_summaries_group(study.runs),
                            checks_group(study.checks)};
  for (const auto& [level, info] : study.data) {
    groups.push_back(trace::describe_data("data_" + level, info));
  }
  return groups;
}

}  // namespace zeropp::converge
