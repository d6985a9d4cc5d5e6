#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/fabric/links.hpp"
#include "apps/fabric/outputs.hpp"
#include "lib/base/text.hpp"
#include "lib/trace/provenance.hpp"
#include "lib/trace/verdict.hpp"

namespace zeropp::fabric {

namespace {

/// More columns than that fit no screen.
constexpr std::size_t kWidestMatrix = 32;
constexpr int kWidth = 8;
constexpr std::size_t kNamedPairs = 8;  // of those that were not measured: --json has all

std::string cell(double value) {
  return std::isfinite(value) ? in_width(value, kWidth) : std::string("-");
}

std::string row_of_rank(const std::vector<std::string>& cells) {
  return fmt::format("# {:>5} {:>5} {:>5}  {:<16} {:>3}  {:<12} {:>4}  {:>7}  {:<16} {}\n",
                     cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7],
                     cells[8], cells[9]);
}

std::string table_of_ranks(const std::vector<app::RankPlace>& ranks,
                           const std::vector<comm::LocalRank>& nodes) {
  std::string text = row_of_rank(app::placement_columns());
  for (const auto& row : placement_rows(ranks, nodes)) text += row_of_rank(row);
  return text;
}

std::string table_of_interfaces(const std::vector<app::RankPlace>& places) {
  std::string text = fmt::format("# {:<16} {:<12} {:<12} {:>4}  {:>6}  {:<8} {}\n", "host",
                                 "interface", "PCI", "NUMA", "Gb/s", "state", "link layer");
  std::set<std::string> done;
  for (const app::RankPlace& place : places) {
    if (!done.insert(place.host).second) continue;
    for (const auto& [nic, path] : place.nics) {
      text += fmt::format("# {:<16} {:<12} {:<12} {:>4}  {:>6}  {:<8} {}\n", place.host, nic.name,
                          app::or_dash(nic.pci), app::or_dash(nic.numa),
                          nic.gigabits > 0 ? fmt::format("{:g}", nic.gigabits) : std::string("-"),
                          app::or_dash(nic.state), app::or_dash(nic.link_layer));
    }
  }
  return text;
}

std::string matrix_text(const FabricReport& report, Metric metric) {
  const FabricMap& map = report.map;
  std::string text =
      fmt::format("# {} in {}, row: {}, column: {}\n# {:>4}", name_of(metric), unit_of(metric),
                  report.pair_test == PairTest::exchange ? "sender" : "rank that measures",
                  report.pair_test == PairTest::exchange ? "receiver" : "its peer", "");
  if (map.ranks() > kWidestMatrix) {
    return fmt::format("# {}: {} x {} values, which --output and --json write\n", name_of(metric),
                       map.ranks(), map.ranks());
  }
  for (std::size_t to = 0; to < map.ranks(); ++to) text += fmt::format(" {:>{}}", to, kWidth);
  text += '\n';
  for (std::size_t from = 0; from < map.ranks(); ++from) {
    text += fmt::format("  {:>4}", from);
    for (std::size_t to = 0; to < map.ranks(); ++to) {
      const double seconds = map.link(from, to).of(metric).value;
      text += fmt::format(" {:>{}}", cell(shown(metric, seconds, map.message_bytes)), kWidth);
    }
    text += '\n';
  }
  return text;
}

std::string rails_text(const FabricMap& map) {
  if (map.rails.empty()) {
    return "# rails under load: none (they need several nodes of equal size)\n";
  }
  std::string text = fmt::format(
      "# rails under load: every rank exchanges with all others of its rail at once, {} bytes "
      "a rank\n# {:>4} {:>6} {:>{}} {:>{}}\n",
      map.rail_bytes, "rail", "rank", "us", kWidth, "GB/s", kWidth);
  for (std::size_t rank = 0; rank < map.ranks(); ++rank) {
    const RailLoad& load = map.rails[rank];
    text +=
        fmt::format("  {:>4} {:>6} {:>{}} {:>{}}\n", map.local_ranks[rank].local, rank,
                    cell(shown(Metric::latency, load.latency.value, map.rail_bytes)), kWidth,
                    cell(shown(Metric::bandwidth, load.transfer.value, map.rail_bytes)), kWidth);
  }
  return text;
}

std::string hosts_text(const Hosts& hosts) {
  std::vector<std::string> bad;
  std::string drains;
  for (const BadHost& each : hosts.bad) {
    bad.push_back(each.host);
    drains +=
        fmt::format("# {}\n", each.faulty ? drain_command(each) : each.host + ": " + each.reason);
  }
  return fmt::format("# {:<20} : {} of {}, {}\n{}{}", "Good hosts", hosts.good.size(),
                     hosts.good.size() + hosts.bad.size(),
                     hosts.exact ? "the largest set" : "perhaps not the largest set (greedy)",
                     bad.empty() ? "" : fmt::format("# --exclude={}\n", fmt::join(bad, ",")),
                     drains);
}

}  // namespace

std::string FabricReport::missing() const {
  const auto pairs = map.unmeasured();
  std::set<int> rails;
  for (std::size_t rank = 0; rank < map.rails.size(); ++rank) {
    if (!map.rails[rank].measured()) rails.insert(map.local_ranks[rank].local);
  }
  std::vector<std::string> names;
  for (std::size_t pair = 0; pair < std::min(pairs.size(), kNamedPairs); ++pair) {
    names.push_back(fmt::format("{}-{}", pairs[pair].first, pairs[pair].second));
  }
  const std::size_t others = pairs.size() - names.size();
  std::vector<std::string> parts;
  if (!pairs.empty()) {
    parts.push_back(fmt::format("{} of {} pairs of ranks were not measured ({}{})", pairs.size(),
                                map.ranks() * (map.ranks() + 1) / 2, fmt::join(names, ", "),
                                others > 0 ? fmt::format(" and {} more", others) : ""));
  }
  if (!rails.empty())
    parts.push_back(fmt::format("rails {} were not measured", fmt::join(rails, ", ")));
  if (!parts.empty() && !map.busy.empty()) {
    parts.push_back(fmt::format("other work had processors of rank{} {}",
                                map.busy.size() == 1 ? "" : "s", fmt::join(map.busy, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

ExitCode FabricReport::code() const {
  if (!judgement.faults.empty()) return ExitCode::check_failed;
  return missing().empty() ? ExitCode::ok : ExitCode::undecided;
}

std::string FabricReport::verdict() const {
  const ExitCode outcome = code();
  if (outcome == ExitCode::ok) return trace::kValid;
  if (outcome == ExitCode::undecided) return fmt::format("INCOMPLETE: {}", missing());
  return fmt::format("INVALID: {} finding{}, {}", judgement.faults.size(),
                     judgement.faults.size() == 1 ? "" : "s",
                     describe(judgement.faults.front(), hosts));
}

std::vector<std::string> busy_mistakes(const FabricReport& report) {
  const FabricMap& map = report.map;
  std::vector<std::string> lines;
  for (const std::size_t rank : map.busy) {
    lines.push_back(fmt::format(
        "rank {} on {} waited for a processor for {:.0f} % of the time: end the other work there, "
        "or bind the rank to free processors",
        rank, report.hosts.at(rank), 100 * map.waited[rank]));
  }
  return lines;
}

std::string mistakes_text(const std::vector<std::string>& mistakes) {
  std::string text;
  for (const std::string& mistake : mistakes) text += fmt::format("# MISTAKE: {}\n", mistake);
  return text;
}

std::string placement_text(const std::vector<app::RankPlace>& places,
                           const std::vector<std::string>& mistakes, const trace::TraceData& run,
                           const comm::World& world) {
  std::string text = fmt::format(
      "# zpp_{} {}\n# Fabric of {} on {} over {}\n#\n# Placement (visible: of the GPUs on the "
      "machine's PCI buses)\n{}#\n# Interfaces\n{}",
      run.app, trace::describe_version(), world.topology().describe(), run.backend, run.transport,
      table_of_ranks(places, world.local_ranks()), table_of_interfaces(places));
  return text + mistakes_text(mistakes) + "#\n";
}

std::string fabric_text(const FabricReport& report, const Options& options) {
  const FabricMap& map = report.map;
  const bool reduced = report.pair_test == PairTest::all_reduce;
  std::string text = fmt::format(
      "# latency: {} bytes, {}; bandwidth: {} bytes, {}; {} rounds of disjoint pairs at once\n",
      kSmallMessage, reduced ? "an all-reduce of two" : "half a round trip", map.message_bytes,
      reduced ? "an all-reduce of two" : "one way", map.rounds);
  if (map.measured_rounds < map.rounds) {
    text += fmt::format("# ONLY {} of {} rounds were measured within --fabric-seconds {}: {}\n",
                        map.measured_rounds, map.rounds, options.seconds, report.missing());
  }
  if (map.repeated > 0) {
    text += fmt::format("# rounds measured again, for what looked slow or was disturbed: {}\n",
                        map.repeated);
  }
  for (const Metric metric : kMetrics) text += matrix_text(report, metric);
  text += rails_text(map);
  text += fmt::format("#\n# threshold: {:g}{}\n", report.threshold,
                      report.threshold > options.threshold
                          ? ", for ranks share processors: --fabric-threshold is too fine for that"
                          : "");
  text += fmt::format("# {:<12} {:<10} {:>8} {:>10} {:>10} {:>10} {:>12}\n", "class", "of", "links",
                      "median", "typical", "worst", "slow beyond");
  for (const LinkClassSummary& one : report.judgement.classes) {
    text += fmt::format("# {:<12} {:<10} {:>8} {:>10} {:>10} {:>10} {:>12} {}\n", one.name,
                        name_of(one.metric), one.count, in_width(one.median, 10),
                        in_width(one.typical, 10), in_width(one.worst, 10), in_width(one.limit, 12),
                        unit_of(one.metric));
  }
  text += "#\n";
  for (const Fault& fault : report.judgement.faults) {
    text += fmt::format("# {}: {}\n", fault.kind == Fault::Kind::corrupted ? "DAMAGED" : "SLOW",
                        describe(fault, report.hosts));
  }
  if (!options.good_hosts.empty() || !report.sorted_hosts.bad.empty()) {
    text += hosts_text(report.sorted_hosts);
  }
  return text + fmt::format("# {:<20} : {}\n", "Verdict", report.verdict());
}

}  // namespace zeropp::fabric
