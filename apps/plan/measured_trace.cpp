#include "apps/plan/measured_trace.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/trace/sinks/h5_reader.hpp"

namespace zeropp::plan_app {

namespace {

using nlohmann::json;

/// Selection that calibrate() reads of either kind of trace.
trace::Selection wanted() {
  return {.attributes = {"app", "world_size", "node_count"},
          .groups = {{"ranks", {"gpu", "host"}},
                     {"ceilings", {"name", "rate"}},
                     {"results",
                      {"kernel", "shape", "dtype", "operations", "time", "collective", "algorithm",
                       "codec", "size", "in_place", "p50", "verdict"}}}};
}

/// A trace's columns and attributes by their names.
class Trace {
 public:
  explicit Trace(const std::filesystem::path& path)
      : name_(path.string()), document_(trace::read_hdf5(path, wanted())) {}

  [[nodiscard]] json attribute(std::string_view name) const {
    for (const trace::Attribute& attribute : document_.attributes) {
      if (attribute.name != name) continue;
      return std::visit([](const auto& value) { return json(value); }, attribute.value);
    }
    missing(fmt::format("attribute {}", name));
  }
  /// Rows of a group, as {column: value}, of the columns that were read.
  [[nodiscard]] std::vector<json> rows(std::string_view group) const {
    for (const trace::Group& each : document_.groups) {
      if (each.name != group || each.columns.empty()) continue;
      std::vector<json> rows(each.columns.front().size());
      for (const trace::Column& column : each.columns) {
        std::visit(
            [&](const auto& values) {
              for (std::size_t i = 0; i < rows.size(); ++i) rows[i][column.name] = values[i];
            },
            column.values);
      }
      return rows;
    }
    missing(fmt::format("group /{}", group));
  }

  [[noreturn]] void missing(const std::string& what) const {
    throw Error(ExitCode::usage,
                fmt::format("{}: no {}: give a trace of zpp_kernels or zpp_sweep", name_, what));
  }

 private:
  std::string name_;
  trace::Document document_;
};

json kernels_of(const Trace& trace) {
  const json rank = trace.rows("ranks").at(0);
  const bool on_gpu = !rank.at("gpu").get<std::string>().empty();
  json made{{"schema", "zeropp-kernels"},
            {"device", rank.at(on_gpu ? "gpu" : "host")},
            {"ceilings", trace.rows("ceilings")}};
  for (json& row : made["rows"] = trace.rows("results")) {
    row["flops"] = row.at("operations").get<double>() / (row.at("time").get<double>() * 1e3);
  }
  return made;
}

json sweep_of(const Trace& trace) {
  json made{{"schema", "zeropp-sweep"}, {"results", json::array()}};
  for (const char* name : {"world_size", "node_count"}) {
    made["provenance"][name] = trace.attribute(name);
  }
  for (json& row : trace.rows("results")) {
    if (row.at("in_place") != 0) continue;
    row["out_of_place"] = {{"p50", row.at("p50")}, {"verdict", row.at("verdict")}};
    made["results"].push_back(std::move(row));
  }
  return made;
}

}  // namespace

nlohmann::json read_measured_trace(const std::filesystem::path& path) {
  const Trace trace(path);
  const json app = trace.attribute("app");
  try {
    if (app == "kernels") return kernels_of(trace);
    if (app == "sweep") return sweep_of(trace);
  } catch (const json::exception& error) {
    trace.missing(fmt::format("such trace ({})", error.what()));
  }
  trace.missing("measurement of kernels or links");
}

}  // namespace zeropp::plan_app
