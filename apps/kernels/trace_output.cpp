#include "apps/kernels/outputs.hpp"
#include "lib/base/units.hpp"

namespace zeropp::kernels {

namespace {

using trace::column;

trace::Group ceilings_group(const std::vector<Ceiling>& ceilings) {
  return {"ceilings",
          {},
          {column("name", "", "memcpy, copy, read, write, fp32, bf16; copy again: at the end",
                  ceilings, &Ceiling::name),
           column("unit", "", "B/s or op/s", ceilings, &Ceiling::unit),
           column("amount", "", "Bytes or operations of one run", ceilings, &Ceiling::amount),
           column("rate", "unit", "amount over the median time", ceilings, &Ceiling::rate)}};
}

trace::Group results_group(const Outcome& outcome) {
  const auto& rows = outcome.rows;
  const auto of_work = [](double Work::*member) {
    return [member](const Row& row) { return row.work.*member; };
  };
  const auto of_summary = [](double Summary::*member, double unit) {
    return [member, unit](const Row& row) { return row.summary.*member / unit; };
  };
  return {
      "results",
      {{"threads", std::uint64_t{outcome.threads}},
       {"cache_bytes", std::uint64_t{outcome.cache_bytes}}},
      {column("kernel", "", "What was measured", rows, &Row::kernel),
       column("variant", "", "Codec, or what is computed beside", rows, &Row::variant),
       column("dtype", "", "Of values, or of weights", rows, &Row::dtype),
       column("shape", "", "Values, or sizes of matrices", rows, &Row::shape),
       column("path", "", "Of several implementations, the one that ran", rows, &Row::path),
       column("read", "bytes", "That one run must read", rows, of_work(&Work::read)),
       column("written", "bytes", "That one run must write", rows, of_work(&Work::written)),
       column("operations", "operations", "Of one run", rows, of_work(&Work::operations)),
       column("arithmetic", "", "What the operations are done in", rows,
              [](const Row& row) -> std::string {
                return row.work.arithmetic == Arithmetic::bf16 ? "bf16" : "fp32";
              }),
       column("sets", "sets", "Of operands, used in turn", rows,
              [](const Row& row) { return std::uint64_t{row.sets}; }),
       column("runs", "runs", "Of a sample", rows,
              [](const Row& row) { return std::uint64_t{row.samples.iterations}; }),
       column("time", "us", "Of one run, median of the samples", rows,
              of_summary(&Summary::median, kMicro)),
       column("time_low", "us", "Its 95 % interval", rows, of_summary(&Summary::low, kMicro)),
       column("time_high", "us", "Its 95 % interval", rows, of_summary(&Summary::high, kMicro)),
       column("p95", "us", "95th percentile", rows, of_summary(&Summary::p95, kMicro)),
       column("cv", "1", "Coefficient of variation", rows, of_summary(&Summary::variation, 1.0)),
       column("limit", "", "The ceiling that binds", rows, &Row::limit),
       column("of_limit", "1", "Share of it", rows, &Row::of_limit),
       column("of_copy", "1",
              "(read + written) / time over the ceiling memcpy (host) or copy (CUDA)", rows,
              &Row::of_copy),
       column("verdict", "", "VALID, or INVALID: reason", rows, &Row::verdict)}};
}

struct Sample {
  std::uint64_t result;
  double seconds;
};

trace::Group samples_group(const std::vector<Row>& rows) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const double seconds : rows[i].samples.slowest()) samples.push_back({i, seconds});
  }
  return {"samples",
          {},
          {column("result", "", "Row of /results", samples, &Sample::result),
           column("time", "s", "Of one run, mean over those of the sample", samples,
                  &Sample::seconds)}};
}

}  // namespace

trace::Document to_document(const Outcome& outcome, const trace::TraceData& run) {
  trace::Document document = trace::describe_run(run);
  document.groups.push_back(ceilings_group(outcome.ceilings));
  document.groups.push_back(results_group(outcome));
  document.groups.push_back(samples_group(outcome.rows));
  return document;
}

}  // namespace zeropp::kernels
