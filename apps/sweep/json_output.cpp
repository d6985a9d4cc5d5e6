#include "apps/sweep/outputs.hpp"
#include "lib/bench/run.hpp"

namespace zeropp::sweep {

namespace {

using bench::number;
using nlohmann::json;

/// The version of nccl-tests' JSON whose key names these are.
constexpr int kNcclTestsVersion = 2;

json to_json(const Measurement& m) {
  return {{"time", m.time},
          {"alg_bw", m.alg_bw},
          {"bus_bw", m.bus_bw},
          {"nwrong", m.nwrong ? json(*m.nwrong) : json(nullptr)},
          {"wire_bus_bw", m.wire_bus_bw},
          {"wire_bytes", m.wire_bytes()},
          {"wire_bytes_intra", m.wire_bytes_intra},
          {"wire_bytes_inter", m.wire_bytes_inter},
          {"ratio", number(m.ratio)},
          {"max_error", number(m.max_error)},
          {"slope", number(m.slope)},
          {"samples", bench::microseconds(m.samples.slowest())},
          {"iterations", m.samples.iterations},
          {"p50", m.p50},
          {"p95", m.p95},
          {"p99", m.p99},
          {"cv", m.cv},
          {"ci95", {m.low, m.high}},
          {"verdict", m.verdict}};
}

json to_json(const Row& row) {
  return {{"collective", row.collective},
          {"codec", row.codec},
          {"algorithm", row.algorithm},
          {"group", row.group},
          {"transport", row.transport},
          {"size", row.size},
          {"count", row.count},
          {"type", row.type},
          {"redop", row.redop},
          {"root", row.root},
          {"modelled", row.modelled},
          {"out_of_place", to_json(row.out_of_place)},
          {"in_place", to_json(row.in_place)}};
}

json units() {
  return {{"size", "bytes"},
          {"count", "elements"},
          {"time", "us"},
          {"alg_bw", "GB/s"},
          {"bus_bw", "GB/s"},
          {"wire_bus_bw", "GB/s"},
          {"wire_bytes", "bytes of one run, sum over ranks"},
          {"wire_bytes_intra", "bytes of one run, sum over ranks"},
          {"wire_bytes_inter", "bytes of one run, sum over ranks"},
          {"ratio", "time of the fastest uncompressed row of this call over this time"},
          {"max_error", "share of the bound"},
          {"samples", "us"},
          {"p50", "us"},
          {"p95", "us"},
          {"p99", "us"},
          {"ci95", "us"}};
}

}  // namespace

json to_json(const Outcome& outcome, const trace::TraceData& run) {
  json results = json::array();
  for (const Row& row : outcome.rows) results.push_back(to_json(row));
  json errors = json::array();
  for (const Finding& finding : outcome.findings) errors.push_back(finding.text);
  const std::vector<WayBandwidth> ways = outcome.bus_bandwidths();
  json document = bench::json_head("zeropp-sweep", "1.0", run);
  document.update({{"version", kNcclTestsVersion},
                   {"devices", bench::devices(run)},
                   {"units", units()},
                   {"results", std::move(results)},
                   {"out_of_bounds",
                    {{"count", outcome.out_of_bounds()}, {"okay", outcome.out_of_bounds() == 0}}},
                   {"average_bus_bandwidth",
                    {{"bandwidth", ways.size() == 1 ? json(ways.front().mean) : json(nullptr)},
                     {"okay", "unchecked"}}},
                   {"errors", std::move(errors)},
                   {"verdict", outcome.verdict()}});
  return document;
}

}  // namespace zeropp::sweep
