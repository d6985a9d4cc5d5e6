#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/kernels/outputs.hpp"
#include "lib/base/units.hpp"

namespace zeropp::kernels {

namespace {

/// The copy at the end is as fast as at the beginning, or the run is noted.
constexpr double kDrifted = 0.03;

double half_width(const Summary& s) {
  return std::max(s.high - s.median, s.median - s.low) / s.median;
}

std::size_t longest(const std::vector<Case>& cases, std::string Case::*part,
                    std::string_view heading) {
  std::size_t width = heading.size();
  for (const Case& each : cases) width = std::max(width, (each.*part).size());
  return width;
}

std::string notes_of(const Row& row) {
  std::string notes;
  if (row.summary.variation > bench::kNoisy) notes += " noisy";
  if (!row.path.empty()) notes += ' ' + row.path;
  return notes;
}

}  // namespace

Widths::Widths(const std::vector<Case>& cases)
    : kernel(longest(cases, &Case::kernel, "kernel")),
      variant(longest(cases, &Case::variant, "variant")),
      dtype(longest(cases, &Case::dtype, "dtype")),
      shape(longest(cases, &Case::shape, "shape")) {}

std::string preamble(const Options& options, const Outcome& outcome, const trace::RankRow& rank) {
  const std::string stop =
      options.samples > 0
          ? fmt::format("{} samples per row", options.samples)
          : fmt::format(
                "samples until the 95 % interval of the median lies within 1 %, or for {} s",
                options.maximum_seconds);
  return fmt::format(
      "# zpp_kernels on {} ({})\n"
      "# host kernels: {} thread(s); largest cache {:.0f} MiB: operands rotate through {} times as "
      "much\n"
      "# {}\n",
      options.backend == Backend::cuda ? rank.gpu : rank.host, enum_name(*options.backend),
      outcome.threads, static_cast<double>(outcome.cache_bytes) / 0x1p20, kCachesFilled, stop);
}

std::string line_of(const Ceiling& ceiling) {
  const Summary s = summarize(ceiling.samples.slowest());
  const bool moves = ceiling.unit == "B/s";
  return fmt::format("# ceiling {:<11} {:>9.2f} {:<7} +-{:>4.1f} %  {}\n", ceiling.name,
                     ceiling.rate() / kGiga, moves ? "GB/s" : "GFLOP/s", 100 * half_width(s),
                     ceiling.means);
}

std::string column_names(const Widths& w, Backend backend) {
  return fmt::format(
      "# of limit: at the ceiling that binds; of copy: bytes read + written over {}\n"
      "{:<{}}  {:<{}}  {:<{}}  {:<{}}  {:>11}  {:>6}  {:>4}  {:>9}  {:>9}  {:>9}  {:>7}  {:>5}  "
      "{:>8}\n",
      backend == Backend::host ? "one thread's memcpy, counted once"
                               : "the driver's copy, read + written",
      "kernel", w.kernel, "variant", w.variant, "dtype", w.dtype, "shape", w.shape, "us", "+-", "n",
      "MB", "GB/s", "GFLOP/s", "of copy", "limit", "of limit");
}

std::string line_of(const Row& row, const Widths& w) {
  const std::string names =
      fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<{}}", row.kernel, w.kernel, row.variant, w.variant,
                  row.dtype, w.dtype, row.shape, w.shape);
  if (!row.valid()) return names + "  " + row.verdict + "\n";
  return fmt::format(
      "{}  {:>11.2f}  {:>4.1f} %  {:>4}  {:>9.2f}  {:>9.2f}  {:>9.2f}  {:>5.1f} %  {:>5}  {:>6.1f} "
      "%{}\n",
      names, row.summary.median / kMicro, 100 * half_width(row.summary), row.samples.seconds.size(),
      row.work.moved() / kMega, row.bytes_per_second() / kGiga, row.operations_per_second() / kGiga,
      100 * row.of_copy, row.limit, 100 * row.of_limit, notes_of(row));
}

std::string footer(const Outcome& outcome) {
  const auto rate = [&](std::string_view name) {
    return std::ranges::find(outcome.ceilings, name, &Ceiling::name)->rate();
  };
  const double drift = rate("copy again") / rate("copy") - 1;
  std::string text;
  if (std::abs(drift) > kDrifted) {
    text = fmt::format("# Drift : the copy became {:.1f} % {}: shares are uncertain by as much\n",
                       100 * std::abs(drift), drift > 0 ? "faster" : "slower");
  }
  return text + fmt::format("# Verdict : {}\n", outcome.verdict());
}

}  // namespace zeropp::kernels
