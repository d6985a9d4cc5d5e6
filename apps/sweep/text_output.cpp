#include <fmt/format.h>

#include <cmath>

#include "apps/sweep/outputs.hpp"
#include "lib/base/text.hpp"
#include "lib/trace/provenance.hpp"

namespace zeropp::sweep {

namespace {

std::string thirteen(const Row& row) {
  std::string line = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.size, row.count,
                                 row.type, row.redop, row.root);
  for (const Measurement* m : {&row.out_of_place, &row.in_place}) {
    line += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", in_width(m->time, 7),
                        in_width(m->alg_bw, 6), in_width(m->bus_bw, 6),
                        m->nwrong ? fmt::format("{}", *m->nwrong) : std::string("N/A"));
  }
  return line;
}

std::string or_dash(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : std::string("-");
}

std::string notes(const Row& row, bool flags_noise) {
  std::string text;
  if (row.modelled) text += " modelled";
  if (flags_noise && (row.out_of_place.cv > bench::kNoisy || row.in_place.cv > bench::kNoisy))
    text += " noisy";
  return text;
}

/// nccl-tests' line, where one way ran; else one line for each collective, with all its ways: a
/// mean over ways is the bandwidth of none.
std::string bandwidth_lines(const std::vector<WayBandwidth>& ways) {
  if (ways.size() == 1) {
    return fmt::format("# {:<20} : {:.4f} \n", "Avg bus bandwidth", ways.front().mean);
  }
  std::string text;
  std::string_view collective;
  const auto in_group = [](const std::string& group) {
    return group == "world" ? "" : fmt::format(" ({})", group);
  };
  for (const WayBandwidth& way : ways) {
    const bool first = way.collective != collective;
    if (first)
      text += fmt::format("{}# {:<20} :", text.empty() ? "" : "\n", "busbw " + way.collective);
    collective = way.collective;
    text += fmt::format("{} {} {}{} {:.4f}", first ? "" : ",", way.codec, way.algorithm,
                        in_group(way.group), way.mean);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string preamble(const Options& options, const Settings& settings,
                     const comm::Topology& topology, const std::vector<trace::RankRow>& ranks) {
  const bench::Repetition& repetition = settings.bench.repetition.times;
  std::string text = fmt::format(
      "# zpp_sweep {}\n"
      "# Collective test starting: zpp_sweep\n"
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
      "iters: {} validation: {} graph: {}\n",
      trace::describe_version(), options.threads, options.gpus, options.minimum_bytes,
      options.maximum_bytes, options.step_factor > 1 ? options.step_factor : options.step_bytes,
      options.step_factor > 1 ? "factor" : "bytes", repetition.warmups,
      repetition.iterations > 0 ? fmt::format("{}", repetition.iterations) : std::string("auto"),
      repetition.operations, settings.bench.checks, options.graph);
  text += fmt::format(
      "# {} on {} over {}{}\n#\n# Using devices\n", topology.describe(),
      enum_name(*options.backend), enum_name(*options.transport),
      options.copy_engines == comm::CopyEngines::on ? ", large equal pieces by copy engines" : "");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const trace::RankRow& row = ranks[rank];
    text +=
        fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}\n", rank, 0,
                    row.pid, row.host, row.local_rank, row.gpu_pci.empty() ? "host" : row.gpu_pci,
                    row.gpu.empty() ? "memory of the host" : row.gpu);
  }
  return text + "#\n";
}

std::string column_names(bool per_iteration) {
  return fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^31}  {:^31}  {}\n"
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  "
      "{:>6}  "
      "{:<14} {:<10} {:<10} {:<6} {:>10} {:>9} {:>6} {:>7} {:>9} {:>9}{} {:>6}  {}\n"
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  "
      "{:>6}  "
      "{:<14} {:<10} {:<10} {:<6} {:>10} {:>9} {:>6} {:>7} {:>9} {:>9}{} {:>6}\n",
      "", "", "", "", "", "out-of-place", "in-place", "of the out-of-place runs", "size", "count",
      "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
      "#wrong", "collective", "codec", "algorithm", "group", "wireMB", "wirebusbw", "ratio",
      "maxerr", "p50", "p95", per_iteration ? fmt::format(" {:>9}", "p99") : "", "cv", "verdict",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
      "", "", "", "", "", "(MB)", "(GB/s)", "", "(bound)", "(us)", "(us)",
      per_iteration ? fmt::format(" {:>9}", "(us)") : "", "(%)");
}

std::string line_of(const Row& row, bool flags_noise, bool per_iteration) {
  const Measurement& m = row.out_of_place;
  const bool valid = m.valid() && row.in_place.valid();
  return thirteen(row) +
         fmt::format(
             "  {:<14} {:<10} {:<10} {:<6} {:>10.3f} {:>9.2f} {:>6} {:>7} {:>9} {:>9}{} "
             "{:>6.1f}  {}{}\n",
             row.collective, row.codec, row.algorithm, row.group,
             static_cast<double>(m.wire_bytes()) * 1e-6, m.wire_bus_bw, or_dash(m.ratio, "{:.2f}"),
             or_dash(m.max_error, "{:.3f}"), in_width(m.p50, 9), in_width(m.p95, 9),
             per_iteration ? fmt::format(" {:>9}", in_width(m.p99, 9)) : std::string(), m.cv * 100,
             valid ? "VALID" : "INVALID", notes(row, flags_noise));
}

std::string footer(const Outcome& outcome) {
  const std::uint64_t wrong = outcome.out_of_bounds();
  return fmt::format(
      "# {:<20} : {} {}\n{}#\n# Collective test concluded: zpp_sweep\n# {:<20} : {}\n",
      "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED",
      bandwidth_lines(outcome.bus_bandwidths()), "Verdict", outcome.verdict());
}

}  // namespace zeropp::sweep
