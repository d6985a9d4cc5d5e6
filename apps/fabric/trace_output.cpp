#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "apps/fabric/links.hpp"
#include "apps/fabric/outputs.hpp"
#include "lib/base/units.hpp"

namespace zeropp::fabric {

namespace {

using trace::column;

struct LinkRow {
  std::uint64_t sender;
  std::uint64_t receiver;
  std::string link;
  Link measured;
};

trace::Group links(const FabricReport& report) {
  const FabricMap& map = report.map;
  std::vector<LinkRow> rows;
  rows.reserve(map.links.size());
  for (std::size_t from = 0; from < map.ranks(); ++from) {
    for (std::size_t to = 0; to < map.ranks(); ++to) {
      rows.push_back(
          {from, to, std::string(name_of(map.link_class(from, to))), map.link(from, to)});
    }
  }
  const auto microseconds = [](auto timing, auto part) {
    return [=](const LinkRow& row) { return row.measured.*timing.*part / kMicro; };
  };
  return {
      "fabric",
      {{"pairs", std::string(enum_name(report.pair_test))},
       {"small_message_bytes", std::uint64_t{kSmallMessage}},
       {"message_bytes", std::uint64_t{map.message_bytes}},
       {"rail_bytes", std::uint64_t{map.rail_bytes}},
       {"rounds", std::uint64_t{map.rounds}},
       {"measured_rounds", std::uint64_t{map.measured_rounds}},
       {"repeated_rounds", std::uint64_t{map.repeated}}},
      {column("sender", "", "Rank; rows are a matrix in row order", rows, &LinkRow::sender),
       column("receiver", "", "Rank", rows, &LinkRow::receiver),
       column("link", "", "self, intra-node or inter-node", rows, &LinkRow::link),
       column("latency", "us",
              "Half a round trip of a small message, or an all-reduce, smallest; NaN: not measured",
              rows, microseconds(&Link::latency, &Timing::value)),
       column("latency_spread", "us", "Median of the repetitions less the smallest", rows,
              microseconds(&Link::latency, &Timing::spread)),
       column("bandwidth", "GB/s",
              "Of a large message, acknowledged, or an all-reduce, median; NaN: not measured", rows,
              [&map](const LinkRow& row) {
                return shown(Metric::bandwidth, row.measured.transfer.value, map.message_bytes);
              }),
       column("transfer", "us", "Of a large message, median", rows,
              microseconds(&Link::transfer, &Timing::value)),
       column("transfer_spread", "us", "That less the smallest of the repetitions", rows,
              microseconds(&Link::transfer, &Timing::spread)),
       column(
           "corrupted", "words", "Of 8 bytes that did not arrive as they were sent", rows,
           [](const LinkRow& row) { return static_cast<std::uint64_t>(row.measured.corrupted); })}};
}

trace::Group rails(const FabricMap& map) {
  const auto& rows = map.rails;
  std::uint64_t rank = 0;
  std::uint64_t place = 0;
  return {
      "fabric_rails",
      {},
      {column("rank", "", "Whose exchange", rows, [&](const RailLoad&) { return rank++; }),
       column("rail", "", "Local rank", rows,
              [&](const RailLoad&) {
                return static_cast<std::uint64_t>(map.local_ranks[place++].local);
              }),
       column("latency", "us", "Of an exchange of small messages with all others of the rail", rows,
              [&](const RailLoad& load) {
                return shown(Metric::latency, load.latency.value, map.rail_bytes);
              }),
       column("bandwidth", "GB/s", "That the rank sends, all rails and both ways at once", rows,
              [&](const RailLoad& load) {
                return shown(Metric::bandwidth, load.transfer.value, map.rail_bytes);
              })}};
}

trace::Group typical(const FabricReport& report) {
  const auto& rows = report.judgement.classes;
  return {"fabric_typical",
          {{"threshold", report.threshold}},
          {column("class", "", "Of links, or rail", rows, &LinkClassSummary::name),
           column("metric", "", "latency (us) or bandwidth (GB/s)", rows,
                  [](const LinkClassSummary& c) { return std::string(name_of(c.metric)); }),
           column("count", "", "Links or rails measured", rows,
                  [](const LinkClassSummary& c) { return std::uint64_t{c.count}; }),
           column("median", "us or GB/s", "Of all links or rails measured", rows,
                  &LinkClassSummary::median),
           column("typical", "us or GB/s",
                  "What each is judged by: over ranks, of the medians over their links, the lower "
                  "one of an even number",
                  rows, &LinkClassSummary::typical),
           column("worst", "us or GB/s", "Of all", rows, &LinkClassSummary::worst),
           column("limit", "us or GB/s", "Beyond it something is slow", rows,
                  &LinkClassSummary::limit)}};
}

trace::Group faults(const FabricReport& report) {
  const auto& rows = report.judgement.faults;
  return {"fabric_faults",
          {},
          {column("kind", "", "rank, link, rail or corrupted", rows,
                  [](const Fault& s) { return std::string(name_of(s.kind)); }),
           column("class", "", "Of links, or rail", rows, &Fault::name),
           column("metric", "", "latency (us) or bandwidth (GB/s)", rows,
                  [](const Fault& s) { return std::string(name_of(s.metric)); }),
           column("first", "", "Rank, sender or rail", rows,
                  [](const Fault& s) { return static_cast<std::uint64_t>(s.first); }),
           column("second", "", "Receiver; empty: none", rows,
                  [](const Fault& s) { return s.second < 0 ? "" : std::to_string(s.second); }),
           column("value", "us or GB/s", "Measured", rows, &Fault::value),
           column("typical", "us or GB/s", "Of its class", rows, &Fault::typical),
           column("times", "1", "How many times as long as typical it takes", rows, &Fault::times),
           column("text", "", "In words", rows,
                  [&](const Fault& s) { return describe(s, report.hosts); })}};
}

/// -1 is no number of a column of unsigned integers.
std::string number_or_empty(int value) { return value < 0 ? "" : std::to_string(value); }

trace::Group placement(const FabricReport& report) {
  const auto& rows = report.places;
  return {"placement",
          {{"mistakes", fmt::format("{}", fmt::join(report.mistakes, "\n"))}},
          {column("host", "", "Name of the machine", rows, &app::RankPlace::host),
           column("gpu", "", "Of those that the rank sees; empty: none", rows,
                  [](const app::RankPlace& p) { return number_or_empty(p.gpu); }),
           column("gpu_pci", "", "Its PCI address", rows, &app::RankPlace::gpu_pci),
           column("gpu_numa", "", "Its NUMA node; empty: not told", rows,
                  [](const app::RankPlace& p) { return number_or_empty(p.gpu_numa); }),
           column("visible_gpus", "GPUs", "That the rank sees", rows,
                  [](const app::RankPlace& p) { return std::uint64_t{p.visible.size()}; }),
           column("host_gpus", "GPUs", "On the machine's PCI buses", rows,
                  [](const app::RankPlace& p) { return std::uint64_t{p.host_gpus}; }),
           column("cuda_visible_devices", "", "Empty where it is not set, too", rows,
                  [](const app::RankPlace& p) { return p.visible_devices.value_or(""); }),
           column("cpus", "", "Processors that the rank may run on", rows,
                  [](const app::RankPlace& p) { return app::cpu_list(p.cpus); }),
           column("cpu_numa", "", "Their NUMA nodes", rows,
                  [](const app::RankPlace& p) { return app::cpu_list(p.cpu_nodes); }),
           column("nearest", "", "Network interfaces, with the path from the GPU", rows,
                  [](const app::RankPlace& p) { return p.nearest_nics(); })}};
}

struct InterfaceRow {
  std::string host;
  app::Nic nic;
};

trace::Group interfaces(const std::vector<app::RankPlace>& places) {
  std::vector<InterfaceRow> rows;
  std::set<std::string> done;
  for (const app::RankPlace& place : places) {
    if (!done.insert(place.host).second) continue;
    for (const auto& [nic, path] : place.nics) rows.push_back({place.host, nic});
  }
  const auto of_nic = [](auto member) {
    return [member](const InterfaceRow& row) { return row.nic.*member; };
  };
  return {"interfaces",
          {},
          {column("host", "", "Name of the machine", rows, &InterfaceRow::host),
           column("name", "", "Of the interface or adapter", rows, of_nic(&app::Nic::name)),
           column("rdma", "bool", "1: an adapter of InfiniBand or RoCE", rows,
                  [](const InterfaceRow& row) { return std::uint64_t{row.nic.rdma}; }),
           column("pci", "", "Its PCI address; empty: on no PCI bus", rows, of_nic(&app::Nic::pci)),
           column("numa", "", "Its NUMA node; empty: not told", rows,
                  [](const InterfaceRow& row) { return number_or_empty(row.nic.numa); }),
           column("state", "", "As the kernel says it", rows, of_nic(&app::Nic::state)),
           column("rate", "Gb/s", "0: not told", rows, of_nic(&app::Nic::gigabits)),
           column("link_layer", "", "Ethernet, InfiniBand; empty: another", rows,
                  of_nic(&app::Nic::link_layer))}};
}

}  // namespace

trace::Document fabric_document(const FabricReport& report, const trace::TraceData& run) {
  trace::Document document = trace::describe_run(run);
  document.groups.push_back(links(report));
  document.groups.push_back(rails(report.map));
  document.groups.push_back(typical(report));
  document.groups.push_back(faults(report));
  document.groups.push_back(placement(report));
  document.groups.push_back(interfaces(report.places));
  return document;
}

}  // namespace zeropp::fabric
