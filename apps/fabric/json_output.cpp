#include "apps/fabric/links.hpp"
#include "apps/fabric/outputs.hpp"
#include "lib/bench/run.hpp"

namespace zeropp::fabric {

namespace {

using bench::number;
using nlohmann::json;

json matrix_json(const FabricMap& map, Metric metric) {
  json rows = json::array();
  for (std::size_t from = 0; from < map.ranks(); ++from) {
    json row = json::array();
    for (std::size_t to = 0; to < map.ranks(); ++to) {
      row.push_back(number(shown(metric, map.link(from, to).of(metric).value, map.message_bytes)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

json rails_json(const FabricMap& map) {
  json list = json::array();
  for (std::size_t rank = 0; rank < map.rails.size(); ++rank) {
    const RailLoad& load = map.rails[rank];
    list.push_back(
        {{"rank", rank},
         {"rail", map.local_ranks[rank].local},
         {"latency", number(shown(Metric::latency, load.latency.value, map.rail_bytes))},
         {"bandwidth", number(shown(Metric::bandwidth, load.transfer.value, map.rail_bytes))}});
  }
  return list;
}

json typical_json(const Judgement& judgement) {
  json list = json::array();
  for (const LinkClassSummary& c : judgement.classes) {
    list.push_back({{"class", c.name},
                    {"metric", name_of(c.metric)},
                    {"count", c.count},
                    {"median", number(c.median)},
                    {"typical", number(c.typical)},
                    {"worst", number(c.worst)},
                    {"limit", number(c.limit)}});
  }
  return list;
}

json hosts_json(const Hosts& hosts) {
  json bad = json::array();
  for (const BadHost& each : hosts.bad) {
    bad.push_back({{"host", each.host},
                   {"reason", each.reason},
                   {"drain", each.faulty ? json(drain_command(each)) : json(nullptr)}});
  }
  return {{"good", hosts.good}, {"bad", std::move(bad)}, {"exact", hosts.exact}};
}

json faults_json(const FabricReport& report) {
  json list = json::array();
  for (const Fault& s : report.judgement.faults) {
    json entry{{"kind", name_of(s.kind)}, {"class", s.name}, {"text", describe(s, report.hosts)}};
    entry[s.kind == Fault::Kind::rail ? "rail" : "rank"] = s.first;
    if (s.second >= 0) entry["peer"] = s.second;
    if (s.kind == Fault::Kind::corrupted) {
      entry["corrupted"] = s.corrupted;
    } else {
      entry.update(json{{"metric", name_of(s.metric)},
                        {"value", s.value},
                        {"typical", s.typical},
                        {"times", s.times}});
    }
    if (s.kind != Fault::Kind::rail) {
      entry["host"] = report.hosts.at(static_cast<std::size_t>(s.first));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

json fabric_json(const FabricReport& report, const trace::TraceData& run) {
  const FabricMap& map = report.map;
  json document = bench::json_head("zeropp-fabric", "2.2", run);
  document.update(
      {{"devices", bench::devices(run)},
       {"units", {{"latency", "us"}, {"bandwidth", "GB/s"}, {"message_bytes", "bytes"}}},
       {"pairs", enum_name(report.pair_test)},
       {"small_message_bytes", kSmallMessage},
       {"message_bytes", map.message_bytes},
       {"rail_bytes", map.rail_bytes},
       {"rounds",
        {{"all", map.rounds}, {"measured", map.measured_rounds}, {"repeated", map.repeated}}},
       {"unmeasured", map.unmeasured()},
       {"latency", matrix_json(map, Metric::latency)},
       {"bandwidth", matrix_json(map, Metric::bandwidth)},
       {"rails", rails_json(map)},
       {"threshold", report.threshold},
       {"typical", typical_json(report.judgement)},
       {"faults", faults_json(report)},
       {"hosts", hosts_json(report.sorted_hosts)},
       {"placement", placement_json(report.places)},
       {"waited", map.waited},
       {"mistakes", report.mistakes},
       {"verdict", report.verdict()}});
  return document;
}

}  // namespace zeropp::fabric
