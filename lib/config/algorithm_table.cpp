#include "lib/config/algorithm_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"

namespace zeropp::config {

namespace {

constexpr const char* kKey = "zeropp.algorithm_table";

nlohmann::json parsed(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw Error(ExitCode::io, fmt::format("{}: cannot read {}: give the JSON of a zpp_sweep run",
                                          kKey, path.string()));
  }
  return nlohmann::json::parse(file);
}

Error not_a_sweep(const std::string& name) {
  return {ExitCode::usage,
          fmt::format("{}: {} is not the JSON of a zpp_sweep run: give what zpp_sweep --json FILE "
                      "wrote",
                      kKey, name)};
}

}  // namespace

std::string AlgorithmTable::MeasuredOn::describe() const {
  const std::size_t node = std::max<std::size_t>(1, ranks_per_node);
  return fmt::format("{} x {} ranks on {} over {}, pipeline depth {}{}", world_size / node,
                     ranks_per_node, backend, transport, pipeline_depth,
                     copy_engines == "on" ? ", copy engines" : "");
}

AlgorithmTable AlgorithmTable::read(const std::filesystem::path& path) {
  AlgorithmTable table;
  table.name_ = path.string();
  try {
    const nlohmann::json sweep = parsed(path);
    if (sweep.at("schema") != "zeropp-sweep") throw not_a_sweep(table.name_);
    const auto& run = sweep.at("provenance");
    const auto& config = sweep.at("config");
    if (config.at("graph") != 0 || config.at("aggregated_iterations") != 1) {
      throw Error(
          ExitCode::usage,
          fmt::format("{}: {} was measured with -G or -m, and no run starts collectives so: "
                      "run zpp_sweep without them",
                      kKey, table.name_));
    }
    table.place_ = {.world_size = run.at("world_size"),
                    .ranks_per_node = run.at("ranks_per_node"),
                    .backend = config.at("backend"),
                    .transport = config.at("transport"),
                    .pipeline_depth = config.at("pipeline_depth"),
                    .copy_engines = config.value("copy_engines", "off")};
    for (const auto& row : sweep.at("results")) {
      const auto& measured = row.at("out_of_place");
      if (measured.at("verdict") != "VALID" || measured.at("nwrong").is_null()) continue;
      table.rows_.push_back({{.collective = row.at("collective"),
                              .codec = row.at("codec"),
                              .group = row.at("group"),
                              .type = row.at("type"),
                              .bytes = row.at("size")},
                             row.at("algorithm"),
                             measured.at("p50")});
    }
  } catch (const nlohmann::json::exception&) {
    throw not_a_sweep(table.name_);
  }
  std::ranges::stable_sort(table.rows_, {}, [](const Row& row) { return row.measured.bytes; });
  return table;
}

void AlgorithmTable::require_made_on(const MeasuredOn& place) const {
  if (place == place_) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: {} was measured with {}, this run has {}: run zpp_sweep as this run "
                          "is started, or leave it out",
                          kKey, name_, place_.describe(), place.describe()));
}

double AlgorithmTable::time(const Question& question, std::string_view algorithm) const {
  const Row* below = nullptr;
  for (const Row& row : rows_) {
    const Question& measured = row.measured;
    if (row.algorithm != algorithm || measured.collective != question.collective ||
        measured.codec != question.codec || measured.group != question.group ||
        measured.type != question.type) {
      continue;
    }
    if (measured.bytes >= question.bytes) {
      if (below == nullptr || measured.bytes == question.bytes) return row.microseconds;
      const auto at = [&](std::size_t bytes) {
        return static_cast<double>(bytes - below->measured.bytes);
      };
      return std::lerp(below->microseconds, row.microseconds,
                       at(question.bytes) / at(measured.bytes));
    }
    below = &row;
  }
  if (below == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return below->microseconds * static_cast<double>(question.bytes) /
         static_cast<double>(std::max<std::size_t>(1, below->measured.bytes));
}

std::string AlgorithmTable::fastest(const Question& question,
                                    const std::vector<std::string>& candidates) const {
  const std::string* chosen = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& candidate : candidates) {
    const double microseconds = time(question, candidate);
    if (!(microseconds < least)) continue;
    least = microseconds;
    chosen = &candidate;
  }
  if (chosen != nullptr) return *chosen;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: {} has no right row of {} with codec {} in {} on group {} by {}: run "
                  "zpp_sweep --collective {} --codec {} -d {} --group {} --algorithm all, or name "
                  "the algorithm",
                  kKey, name_, question.collective, question.codec, question.type, question.group,
                  fmt::join(candidates, ", "), question.collective, question.codec, question.type,
                  question.group));
}

}  // namespace zeropp::config
