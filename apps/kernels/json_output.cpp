#include "apps/kernels/outputs.hpp"
#include "lib/base/units.hpp"
#include "lib/bench/run.hpp"

namespace zeropp::kernels {

namespace {

using nlohmann::json;

json times_of(const Samples& samples, const Summary& s) {
  return {{"time", s.median / kMicro},  {"ci95", {s.low / kMicro, s.high / kMicro}},
          {"p95", s.p95 / kMicro},      {"cv", s.variation},
          {"runs", samples.iterations}, {"samples", bench::microseconds(samples.slowest())}};
}

json to_json(const Row& row) {
  json result = times_of(row.samples, row.summary);
  result.update({{"kernel", row.kernel},
                 {"variant", row.variant},
                 {"dtype", row.dtype},
                 {"shape", row.shape},
                 {"path", row.path},
                 {"read", row.work.read},
                 {"written", row.work.written},
                 {"operations", row.work.operations},
                 {"arithmetic", row.work.arithmetic == Arithmetic::bf16 ? "bf16" : "fp32"},
                 {"sets", row.sets},
                 {"bandwidth", row.bytes_per_second() * 1e-9},
                 {"flops", row.operations_per_second() * 1e-9},
                 {"limit", row.limit},
                 {"of_limit", row.of_limit},
                 {"of_copy", row.of_copy},
                 {"verdict", row.verdict}});
  return result;
}

json to_json(const Ceiling& ceiling) {
  json result = times_of(ceiling.samples, summarize(ceiling.samples.slowest()));
  result.update({{"name", ceiling.name},
                 {"means", ceiling.means},
                 {"unit", ceiling.unit},
                 {"amount", ceiling.amount},
                 {"rate", ceiling.rate()}});
  return result;
}

template <class Rows>
json list_of(const Rows& rows) {
  json list = json::array();
  for (const auto& row : rows) list.push_back(to_json(row));
  return list;
}

json units() {
  return {{"time", "us, median"},
          {"ci95", "us"},
          {"p95", "us"},
          {"samples", "us, mean of `runs` runs each"},
          {"read", "bytes"},
          {"written", "bytes"},
          {"operations", "operations of one run"},
          {"bandwidth", "GB/s, read + written"},
          {"flops", "GFLOP/s"},
          {"of_limit", "share of the ceiling `limit`"},
          {"of_copy",
           "bandwidth over the ceiling memcpy (host: one thread, counted once) or copy (CUDA)"},
          {"rate", "`amount` a second"},
          {"cache_bytes", "bytes"}};
}

}  // namespace

json to_json(const Outcome& outcome, const trace::TraceData& run) {
  const trace::RankRow& rank = run.ranks.front();
  json document = bench::json_head("zeropp-kernels", "1.0", run);
  document.update({{"backend", run.backend},
                   {"device", rank.gpu.empty() ? rank.host : rank.gpu},
                   {"threads", outcome.threads},
                   {"cache_bytes", outcome.cache_bytes},
                   {"units", units()},
                   {"ceilings", list_of(outcome.ceilings)},
                   {"rows", list_of(outcome.rows)},
                   {"verdict", run.verdict}});
  return document;
}

}  // namespace zeropp::kernels
