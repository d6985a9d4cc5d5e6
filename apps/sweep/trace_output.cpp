#include "apps/sweep/outputs.hpp"

namespace zeropp::sweep {

namespace {

/// A measurement with the row that it belongs to.
struct Result {
  const Row* row;
  const Measurement* m;
  bool in_place;
};

std::vector<Result> results_of(const Outcome& outcome) {
  std::vector<Result> results;
  for (const Row& row : outcome.rows) {
    results.push_back({&row, &row.out_of_place, false});
    results.push_back({&row, &row.in_place, true});
  }
  return results;
}

struct Sample {
  std::uint64_t result;
  std::uint64_t cycle;
  std::uint64_t rank;
  double seconds;
};

trace::Group results_group(const std::vector<Result>& rows) {
  using trace::column;
  const auto of_row = [](auto member) {
    return [member](const Result& result) { return result.row->*member; };
  };
  const auto of_m = [](auto member) {
    return [member](const Result& result) { return result.m->*member; };
  };
  const auto of_samples = [](auto read) {
    return [read](const Result& result) { return static_cast<std::uint64_t>(read(*result.m)); };
  };
  return {
      "results",
      {},
      {column("collective", "", "What was measured", rows, of_row(&Row::collective)),
       column("codec", "", "On every hop", rows, of_row(&Row::codec)),
       column("algorithm", "", "That ran", rows, of_row(&Row::algorithm)),
       column("group", "", "Communicator", rows, of_row(&Row::group)),
       column("type", "", "nccl-tests' name of the dtype", rows, of_row(&Row::type)),
       column("redop", "", "Reduction, or none", rows, of_row(&Row::redop)),
       column("root", "", "Rank in the group; empty: the collective has none", rows,
              [](const Result& r) {
                return r.row->root < 0 ? std::string() : std::to_string(r.row->root);
              }),
       column("in_place", "bool", "1: input and result in one buffer", rows,
              [](const Result& r) { return std::uint64_t{r.in_place}; }),
       column("modelled", "bool", "1: the vendor's route; bytes are those of a ring, not counted",
              rows, [](const Result& r) { return std::uint64_t{r.row->modelled}; }),
       column("size", "bytes", "As nccl-tests counts it", rows, of_row(&Row::size)),
       column("count", "elements", "As nccl-tests counts it", rows, of_row(&Row::count)),
       column("time", "us", "Of one operation, median of the cycles, over ranks as configured",
              rows, of_m(&Measurement::time)),
       column("alg_bw", "GB/s", "size / time", rows, of_m(&Measurement::alg_bw)),
       column("bus_bw", "GB/s", "Of uncompressed bytes: effective", rows,
              of_m(&Measurement::bus_bw)),
       column("wire_bus_bw", "GB/s", "Of the bytes that the busiest rank sent", rows,
              of_m(&Measurement::wire_bus_bw)),
       column("wire_bytes_intra", "bytes", "Of one run, sent inside nodes, sum over ranks", rows,
              of_m(&Measurement::wire_bytes_intra)),
       column("wire_bytes_inter", "bytes", "Of one run, sent across nodes, sum over ranks", rows,
              of_m(&Measurement::wire_bytes_inter)),
       column("ratio", "1", "Time of the fastest uncompressed row over this one; NaN: none", rows,
              of_m(&Measurement::ratio)),
       column("checked", "bool", "1: results were compared", rows,
              of_samples([](const Measurement& m) { return m.nwrong.has_value(); })),
       column("wrong", "elements", "Over all checks and ranks", rows,
              of_samples([](const Measurement& m) { return m.nwrong.value_or(0); })),
       column("max_error", "1", "Largest share of the bound; NaN: not checked", rows,
              of_m(&Measurement::max_error)),
       column("slope", "1", "Fitted between wanted and got; NaN: not checked", rows,
              of_m(&Measurement::slope)),
       column("cycles", "cycles", "Samples", rows,
              of_samples([](const Measurement& m) { return m.samples.seconds.size(); })),
       column("iterations", "iterations", "Of a cycle", rows,
              of_samples([](const Measurement& m) { return m.samples.iterations; })),
       column("p50", "us", "Median of the largest times over ranks", rows, of_m(&Measurement::p50)),
       column("p50_low", "us", "Its 95 % interval", rows, of_m(&Measurement::low)),
       column("p50_high", "us", "Its 95 % interval", rows, of_m(&Measurement::high)),
       column("p95", "us", "95th percentile of the largest times over ranks", rows,
              of_m(&Measurement::p95)),
       column("cv", "1", "Their coefficient of variation", rows, of_m(&Measurement::cv)),
       column("verdict", "", "VALID, or INVALID: reason", rows, of_m(&Measurement::verdict))}};
}

trace::Group samples_group(const std::vector<Result>& results) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& cycles = results[i].m->samples.seconds;
    for (std::size_t cycle = 0; cycle < cycles.size(); ++cycle) {
      for (std::size_t rank = 0; rank < cycles[cycle].size(); ++rank) {
        samples.push_back({i, cycle, rank, cycles[cycle][rank]});
      }
    }
  }
  using trace::column;
  return {
      "samples",
      {},
      {column("result", "", "Row of /results", samples, &Sample::result),
       column("cycle", "", "Of that row", samples, &Sample::cycle),
       column("rank", "", "That measured it", samples, &Sample::rank),
       column("time", "s", "Of one operation, mean over the cycle", samples, &Sample::seconds)}};
}

}  // namespace

trace::Document to_document(const Outcome& outcome, const trace::TraceData& run) {
  trace::Document document = trace::describe_run(run);
  const auto results = results_of(outcome);
  document.groups.push_back(results_group(results));
  document.groups.push_back(samples_group(results));
  return document;
}

}  // namespace zeropp::sweep
