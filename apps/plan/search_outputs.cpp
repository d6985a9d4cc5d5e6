#include "apps/plan/search_outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/plan/byte_unit.hpp"
#include "apps/plan/flags_text.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

using trace::column;

/// A candidate with where it was found.
struct Row {
  const comm::Topology* topology;
  const plan::Candidate* candidate;

  [[nodiscard]] double out_of_node() const {
    return static_cast<double>(candidate->step.inter) / topology->node_count;
  }
  [[nodiscard]] double inside_node() const {
    return static_cast<double>(candidate->step.intra) / topology->node_count;
  }
  [[nodiscard]] std::string shards() const {
    const std::size_t group = candidate->config.zero.shard_group_size;
    return group == zero::kAllRanks ? "all" : fmt::to_string(group);
  }
  [[nodiscard]] std::string weights() const {
    const zero::Options& zero = candidate->config.zero;
    return zero.quantized_weights ? codec::to_string(zero.weight_codec) : "none";
  }
  [[nodiscard]] std::string differences() const {
    const zero::WeightDifferenceOptions& differences = candidate->config.zero.weight_differences;
    return differences.enabled ? codec::to_string(differences.codec) : "none";
  }
  [[nodiscard]] std::string gradients() const {
    const zero::Options& zero = candidate->config.zero;
    return zero.quantized_gradients
               ? fmt::format("{}/{}", codec::to_string(zero.gradient_codec_intra),
                             codec::to_string(zero.gradient_codec_inter))
               : "none";
  }
};

std::vector<Row> rows_of(const Found& found) {
  std::vector<Row> rows;
  rows.reserve(found.result.best.size());
  for (const plan::Candidate& candidate : found.result.best)
    rows.push_back({&found.topology, &candidate});
  return rows;
}

/// Units of the bytes and of the memory of `rows`.
std::pair<ByteUnit, ByteUnit> units_of(const std::vector<Row>& rows) {
  double sent = 0;
  double held = 0;
  for (const Row& row : rows) {
    sent = std::max({sent, row.out_of_node(), row.inside_node()});
    held = std::max(held, static_cast<double>(row.candidate->memory));
  }
  return {decimal_unit(sent), binary_unit(held)};
}

trace::TextTable table_of(const std::vector<Row>& rows, bool wide) {
  const auto [sent, held] = units_of(rows);
  const bool one_size = std::ranges::all_of(
      rows, [&](const Row& row) { return row.topology == rows.front().topology; });
  struct Column {
    std::string head;
    std::string cell;
    bool narrow = true;  ///< is in narrow tables, too
  };
  const auto columns_of = [&, sent = sent, held = held](const Row& row) -> std::vector<Column> {
    const config::TrainConfig& config = row.candidate->config;
    return {
        {"nodes", fmt::to_string(row.topology->node_count), !one_size},
        {"stage", fmt::to_string(config.zero.stage)},
        {"shards over", row.shards()},
        {"weights", row.weights()},
        {"differences", row.differences()},
        {"hpZ", fmt::to_string(config.zero.hpz_partition_size)},
        {"gradients", row.gradients()},
        {"all-gather", config.zero.all_gather_algorithm, false},
        {"reduce-scatter", config.zero.reduce_scatter_algorithm, false},
        {"recompute", config.model.recompute_activations ? "yes" : "no"},
        {"batch", fmt::format("{} x {}", config.train_micro_batch_size_per_gpu,
                              config.gradient_accumulation_steps)},
        {fmt::format("{} out", sent.name), in_unit(row.out_of_node(), sent)},
        {fmt::format("{} inside", sent.name), in_unit(row.inside_node(), sent), false},
        {std::string(held.name), in_unit(static_cast<double>(row.candidate->memory), held)},
        {"step s", row.candidate->seconds ? fmt::format("{:.3f}", *row.candidate->seconds) : "-"}};
  };
  const auto cells = [&](const Row& row, std::string Column::*part) {
    std::vector<std::string> shown;
    for (const Column& column : columns_of(row)) {
      if (wide || column.narrow) shown.push_back(column.*part);
    }
    return shown;
  };
  trace::TextTable table(cells(rows.front(), &Column::head));
  for (const Row& row : rows) table.add(cells(row, &Column::cell));
  return table;
}

/// Line about what the codecs of a configuration may cost in training; empty where it has none.
std::string line_of_losses(const Row& row) {
  const config::TrainConfig& config = row.candidate->config;
  std::vector<std::string> parts;
  if (config.zero.quantized_weights) parts.push_back("weights (" + row.weights() + ")");
  if (config.zero.weight_differences.enabled) {
    parts.push_back("weight differences (" + row.differences() + ")");
  }
  if (config.zero.quantized_gradients) parts.push_back("gradients (" + row.gradients() + ")");
  if (parts.empty()) return "";
  return fmt::format(
      "the first encodes {}, which may cost held-out loss:\n"
      "docs/howto/safe-compression.md has what was measured; --minimum-weight-bits and "
      "--minimum-gradient-bits leave out fewer\n",
      fmt::join(parts, " and "));
}

/// Line that says how zpp_train and the other commands take the configuration.
std::string line_of_flags(const config::TrainConfig& config,
                          const std::vector<config::Option>& given) {
  const std::string flags = flags_text(config, given);
  const std::vector<std::string> idle = idle_flags(config, given);
  return fmt::format(
      "the first is, with what was given: {}{}\n", flags.empty() ? "nothing more" : flags,
      idle.empty() ? ""
                   : fmt::format("; without {}, which has no effect there", fmt::join(idle, ", ")));
}

std::string of_one_size(const Found& found, std::size_t rows, bool wide,
                        const std::vector<config::Option>& given) {
  const plan::SearchResult& result = found.result;
  std::string text = fmt::format(
      "{}: {} combinations, {} possible, {} within the limits, {} that no other beats\n",
      found.topology.describe(), result.considered, result.possible, result.fitting,
      result.best.size());
  text += '\n';
  if (result.best.empty()) return text;
  std::vector<Row> all = rows_of(found);
  std::vector<Row> first(all.begin(),
                         all.begin() + static_cast<std::ptrdiff_t>(std::min(rows, all.size())));
  text += table_of(first, wide).str();
  const std::vector<std::size_t> trades = trade_offs(result.best);
  std::vector<Row> shown;
  for (std::size_t i = 0; i < std::min(rows, trades.size()); ++i) shown.push_back(all[trades[i]]);
  text += fmt::format("\nless of one only for more of another: {}, of which\n{}\n", trades.size(),
                      table_of(shown, wide).str());
  text += line_of_flags(all.front().candidate->config, given);
  return text + line_of_losses(all.front());
}

trace::Group sizes_group(const std::vector<Found>& found) {
  return {"searches",
          {},
          {column("nodes", "", "Nodes", found,
                  [](const Found& each) {
                    return static_cast<std::uint64_t>(each.topology.node_count);
                  }),
           column("ranks_per_node", "", "Ranks of each", found,
                  [](const Found& each) {
                    return static_cast<std::uint64_t>(each.topology.ranks_per_node);
                  }),
           column("considered", "", "Combinations", found,
                  [](const Found& each) { return std::uint64_t{each.result.considered}; }),
           column("possible", "", "That zpp_train takes", found,
                  [](const Found& each) { return std::uint64_t{each.result.possible}; }),
           column("fitting", "", "Within the limits", found,
                  [](const Found& each) { return std::uint64_t{each.result.fitting}; })}};
}

trace::Group candidates_group(const std::vector<Row>& rows) {
  const auto number = [](std::size_t value) { return static_cast<std::uint64_t>(value); };
  const auto of_config = [&](auto get) {
    return [get](const Row& row) { return get(row.candidate->config); };
  };
  using Config = config::TrainConfig;
  return {
      "candidates",
      {},
      {column("nodes", "", "Nodes", rows,
              [=](const Row& row) { return static_cast<std::uint64_t>(row.topology->node_count); }),
       column("stage", "", "ZeRO stage", rows,
              of_config([=](const Config& c) { return static_cast<std::uint64_t>(c.zero.stage); })),
       column("shard_group_size", "ranks", "That shard one copy; 0: all", rows,
              of_config([=](const Config& c) { return number(c.zero.shard_group_size); })),
       column("weight_codec", "", "Of qwZ; none: off", rows, &Row::weights),
       column("weight_difference_codec", "", "Of weight differences; none: off", rows,
              &Row::differences),
       column("hpz_partition_size", "ranks", "1: off", rows,
              of_config([=](const Config& c) { return number(c.zero.hpz_partition_size); })),
       column("gradient_codecs", "", "Of both hops of qgZ; none: off", rows, &Row::gradients),
       column("all_gather", "", "Algorithm", rows,
              of_config([](const Config& c) { return c.zero.all_gather_algorithm; })),
       column("reduce_scatter", "", "Algorithm", rows,
              of_config([](const Config& c) { return c.zero.reduce_scatter_algorithm; })),
       column("recompute", "bool", "Activations are computed again", rows,
              of_config([=](const Config& c) {
                return std::uint64_t{c.model.recompute_activations ? 1U : 0U};
              })),
       column("micro_batch", "sequences", "Of a rank", rows,
              of_config([=](const Config& c) { return number(c.train_micro_batch_size_per_gpu); })),
       column("micro_steps", "", "A step", rows,
              of_config([=](const Config& c) { return number(c.gradient_accumulation_steps); })),
       column("bytes_intra_node", "bytes", "Of a step, over all ranks", rows,
              [](const Row& row) { return row.candidate->step.intra; }),
       column("bytes_inter_node", "bytes", "Likewise", rows,
              [](const Row& row) { return row.candidate->step.inter; }),
       column("memory", "bytes", "Of a rank", rows,
              [=](const Row& row) { return number(row.candidate->memory); }),
       column("hardware_flops", "operations", "Of a step, over all ranks", rows,
              [](const Row& row) { return row.candidate->hardware_flops; }),
       column("seconds", "s", "Of a step on plan.cluster; NaN without", rows,
              [](const Row& row) {
                return row.candidate->seconds.value_or(std::numeric_limits<double>::quiet_NaN());
              }),
       column("weight_bits", "bits", "Of a whole weight on the wire", rows,
              [](const Row& row) { return row.candidate->weight_bits; }),
       column("gradient_bits", "bits", "Of a gradient, on the hop with fewer", rows,
              [](const Row& row) { return row.candidate->gradient_bits; })}};
}

}  // namespace

std::vector<std::size_t> trade_offs(const std::vector<plan::Candidate>& candidates) {
  const auto cost = [](const plan::Candidate& c) {
    return c.seconds.value_or(static_cast<double>(c.step.inter));
  };
  const auto as_good = [&](const plan::Candidate& a, const plan::Candidate& b) {
    return cost(a) <= cost(b) && a.memory <= b.memory && a.weight_bits >= b.weight_bits &&
           a.gradient_bits >= b.gradient_bits;
  };
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // The first of equal candidates stays.
    bool beaten = false;
    for (std::size_t j = 0; j < candidates.size() && !beaten; ++j) {
      beaten = j != i && as_good(candidates[j], candidates[i]) &&
               (j < i || !as_good(candidates[i], candidates[j]));
    }
    if (!beaten) kept.push_back(i);
  }
  return kept;
}

std::string to_text(const std::vector<Found>& found, std::size_t rows, bool wide,
                    const std::vector<config::Option>& given) {
  std::string text;
  for (const Found& each : found) text += of_one_size(each, rows, wide, given);
  if (found.size() < 2) return text;
  std::vector<Row> best;
  for (const Found& each : found) {
    if (!each.result.best.empty()) best.push_back(rows_of(each).front());
  }
  if (best.empty()) return text;
  return text + fmt::format("the best of each number of nodes\n{}", table_of(best, wide).str());
}

trace::Document to_document(const std::vector<Found>& found, const trace::TraceData& head) {
  trace::Document document = trace::describe_run(head);
  std::vector<Row> rows;
  for (const Found& each : found) {
    for (const Row& row : rows_of(each)) rows.push_back(row);
  }
  document.groups.push_back(sizes_group(found));
  document.groups.push_back(candidates_group(rows));
  return document;
}

}  // namespace zeropp::plan_app
