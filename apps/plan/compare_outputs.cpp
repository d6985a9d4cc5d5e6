#include "apps/plan/compare_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/plan/byte_unit.hpp"
#include "apps/plan/flags_text.hpp"
#include "apps/plan/rates_text.hpp"
#include "apps/plan/recipe.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

using trace::column;

std::string shown_name(const std::string& feature, const Compared& about) {
  if (feature == kFeatures.front().name) return "ZeRO-3/FSDP2";
  if (feature == kHybrids.front().name) return "hybrid";
  if (feature == kHybrids.back().name) return "hybrid +qgZ";
  if (feature == kDifferences) return "+differences";
  if (feature == kExact) return "+exact";
  if (feature == kExactQgz) return "+exact +qgZ";
  if (feature == kExactInt8) return "+exact +int8";
  if (is_lower_stage(feature)) return feature;
  if (feature != kFeatures.back().name) return "+" + feature;
  return about.all().zero.weight_differences.enabled ? "+differences" : "ZeRO++ (all)";
}

std::string head_of(const Comparison& comparison, const Compared& about) {
  const config::TrainConfig& config = about.all();
  std::string text = fmt::format(
      "{}: {} of {:.3g} billion parameters in {}, {:.0f} tokens per step in {} micro-step{}\n"
      "activations: {}\n",
      about.topology.describe(), config.model.name,
      static_cast<double>(comparison.parameters) * 1e-9, name_of(config.zero.compute),
      comparison.tokens_per_step, config.gradient_accumulation_steps,
      config.gradient_accumulation_steps == 1 ? "" : "s",
      config.model.recompute_activations ? "computed again"
                                         : "all kept (--recompute-activations takes less memory)");
  if (about.cluster == nullptr) return text;
  return text + fmt::format("cluster: {}\nrates: {}\n", about.cluster->name, about.cluster->source);
}

/// The row of DeepSpeed's own times; null where it has none.
const InTurnRow* in_turn_of(const Comparison& comparison, const std::string& feature) {
  const auto found = std::ranges::find(comparison.in_turn, feature, &InTurnRow::feature);
  return found == comparison.in_turn.end() ? nullptr : &*found;
}

std::string table_of(const Comparison& comparison, const Compared& about) {
  const std::vector<ComparedRow> rows = all_rows(comparison);
  const ByteUnit sent = decimal_unit(static_cast<double>(rows.front().out_of_node));
  const ByteUnit held =
      binary_unit(static_cast<double>(std::ranges::max(rows, {}, &ComparedRow::memory).memory));
  const bool timed = about.cluster != nullptr;
  const bool in_turn = timed && about.all().gradient_accumulation_steps > 1;
  std::vector<std::string> header{"step of", fmt::format("{} out of a node", sent.name), "factor",
                                  fmt::format("{} per GPU", held.name)};
  if (about.memory > 0) header.push_back(fmt::format("{} left", held.name));
  if (timed) header.insert(header.end(), {"step ms", "speed-up", "pays below"});
  header.emplace_back("DeepSpeed");
  if (in_turn) header.emplace_back("speed-up there");
  trace::TextTable table(header);
  for (const ComparedRow& row : rows) {
    std::vector<std::string> cells{
        shown_name(row.feature, about), in_unit(static_cast<double>(row.out_of_node), sent),
        fmt::format("{:.2f}", row.reduction), in_unit(static_cast<double>(row.memory), held)};
    if (about.memory > 0) {
      cells.push_back(in_unit(about.memory - static_cast<double>(row.memory), held));
    }
    if (timed) {
      cells.insert(cells.end(),
                   {fmt::format("{:.1f}", row.seconds * 1e3), fmt::format("{:.2f}", row.speedup),
                    &row == &rows.front() ? "-" : pays_below_text(row.pays, *about.cluster)});
    }
    cells.push_back(row.deepspeed.text());
    if (in_turn) {
      const InTurnRow* const there = in_turn_of(comparison, row.feature);
      cells.push_back(there == nullptr || row.deepspeed.in == config::RunsIn::none
                          ? "-"
                          : fmt::format("{:.2f}", there->speedup));
    }
    table.add(std::move(cells));
  }
  return table.str();
}

/// Whether training gets the weights and gradients that it has with ZeRO-3, but for rounding.
bool is_lossless(const zero::Options& zero) {
  const bool differences = zero.weight_differences.enabled && !zero.weight_differences.exact;
  return !zero.quantized_weights && !zero.quantized_gradients && !differences;
}

/// A row and how many times as fast as ZeRO-3 it is for the job.
struct Fast {
  const ComparedRow* row = nullptr;
  double speedup = 0;
};

/// Lines that turn that row on, in DeepSpeed, in PyTorch and in zpp_train.
std::string recipe_text(const ComparedRow& row, const Compared& about) {
  const config::TrainConfig& config = config_of(about.variants, row.feature);
  const Recipe recipe = recipe_of(config, about.topology.node_count, about.topology.ranks_per_node);
  std::string text;
  const auto add = [&](std::string_view where, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      text += fmt::format("  {:14}  {}\n", &line == &lines.front() ? where : "", line);
    }
  };
  if (row.deepspeed.in != config::RunsIn::none) {
    add(row.deepspeed.is_released() ? "DeepSpeed" : "DeepSpeed main", recipe.deepspeed);
  }
  add("FSDP2", recipe.fsdp2);
  add("accelerate", recipe.accelerate);
  add("torchtitan", recipe.torchtitan);
  add("zpp_train", {flags_text(config, {}, true)});
  return text;
}

/// The fastest row that fits and, of a job of DeepSpeed's, that a release of it runs; the fastest
/// of those without a lossy codec; and how to turn each on.
std::string advice(const Comparison& comparison, const Compared& about) {
  const std::string which =
      about.of_deepspeed ? "that fits and a release of DeepSpeed runs" : "that fits";
  const std::vector<ComparedRow> rows = all_rows(comparison);
  Fast fastest;
  Fast lossless;
  for (const ComparedRow& row : rows) {
    if (about.memory > 0 && static_cast<double>(row.memory) > about.memory) continue;
    const InTurnRow* const there = in_turn_of(comparison, row.feature);
    if (about.of_deepspeed && (there == nullptr || !row.deepspeed.is_released())) continue;
    const double speedup = about.of_deepspeed ? there->speedup : row.speedup;
    if (speedup > fastest.speedup) fastest = {&row, speedup};
    if (speedup > lossless.speedup && is_lossless(config_of(about.variants, row.feature).zero)) {
      lossless = {&row, speedup};
    }
  }
  if (fastest.row == nullptr) {
    const bool recomputes = about.all().model.recompute_activations;
    return fmt::format("No row fits: {}zpp_plan search finds what does.\n",
                       recomputes ? "" : "--recompute-activations takes less memory, and ");
  }
  if (fastest.speedup * (1 - about.gain) <= 1) {
    return fmt::format("No row {} makes a step {:g} % shorter (--gain).\n", which,
                       100 * about.gain);
  }
  std::string text = fmt::format("The fastest row {} is {}: {:.2f} times as fast as ZeRO-3.\n{}",
                                 which, shown_name(fastest.row->feature, about), fastest.speedup,
                                 recipe_text(*fastest.row, about));
  if (lossless.row != nullptr && lossless.row != fastest.row) {
    text += fmt::format("Without lossy codecs it is {}: {:.2f} times.\n{}",
                        shown_name(lossless.row->feature, about), lossless.speedup,
                        recipe_text(*lossless.row, about));
  }
  return text;
}

}  // namespace

std::string to_text(const Comparison& comparison, const Compared& about) {
  std::string text =
      fmt::format("{}\n{}\n", head_of(comparison, about), table_of(comparison, about));
  text += about.cluster != nullptr
              ? advice(comparison, about)
              : "For step times add --gpu h100 --node-gbit 400, or --cluster FILE.\n";
  text +=
      "Column DeepSpeed: the release from which on it runs the row: "
      "docs/howto/deepspeed-versions.md.\n"
      "Memory and step times are zpp_train's: docs/howto/planning-times.md#rates-as-sold says how "
      "far off.\n"
      "No plan predicts the loss: docs/howto/safe-compression.md has what was measured.\n"
      "Flags and keys of each row: docs/howto/planning.md#compare.\n";
  const std::vector<ComparedRow> rows = all_rows(comparison);
  if (std::ranges::find(rows, kExact, &ComparedRow::feature) != rows.end()) {
    text += fmt::format(
        "Rows with +exact assume {:g} bits per weight (--exact-planned-bits): "
        "docs/concepts/exact-differences.md has what was measured.\n",
        about.all().zero.weight_differences.planned_bits);
  }
  for (const auto& [row, why] : comparison.refused) {
    text += fmt::format("There is no row {}, for zpp_train refuses it: {}.\n", row, why);
  }
  return text;
}

trace::Document to_document(const Comparison& comparison, const trace::TraceData& head) {
  const std::vector<ComparedRow> rows = all_rows(comparison);
  trace::Document document = trace::describe_run(head);
  document.groups.push_back(
      {"comparison",
       {},
       {column("feature", "",
               "Part of ZeRO++ that is on; none: ZeRO-3; all+differences: with weight differences; "
               "hpZ+exact: with exact ones; hybrid: sharding inside nodes; stage 2, stage 1: "
               "of ZeRO",
               rows, &ComparedRow::feature),
        column("bytes_out_of_node", "bytes", "That leave one node in a step", rows,
               &ComparedRow::out_of_node),
        column("reduction", "1", "Bytes of none over the bytes of the row", rows,
               &ComparedRow::reduction),
        column("memory", "bytes", "What a rank holds on its device", rows, &ComparedRow::memory),
        column("step_seconds", "s", "At the cluster's own rate; NaN without a cluster", rows,
               &ComparedRow::seconds),
        column("speedup", "1", "Over none, there; NaN without", rows, &ComparedRow::speedup),
        column(
            "link_rate", "bytes/s",
            "Rate of a link between nodes below which it pays: 0 never, 1e13 always; NaN without",
            rows, &ComparedRow::link_rate),
        column("bound", "", "What takes the largest part of a step; empty without", rows,
               &ComparedRow::bound)}});
  const std::vector<InTurnRow>& in_turn = comparison.in_turn;
  document.groups.push_back(
      {"in_turn",
       {},
       {column("feature", "", "As in /comparison", in_turn, &InTurnRow::feature),
        column("bytes_out_of_node", "bytes",
               "That leave one node in a step whose micro-steps run one after the other", in_turn,
               &InTurnRow::out_of_node),
        column("reduction", "1", "Bytes of none over the bytes of the row", in_turn,
               &InTurnRow::reduction),
        column("step_seconds", "s", "With micro-steps one after the other; NaN without a cluster",
               in_turn, &InTurnRow::seconds),
        column("speedup", "1", "Over none, there; NaN without", in_turn, &InTurnRow::speedup)}});
  return document;
}

}  // namespace zeropp::plan_app
