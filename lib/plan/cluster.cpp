#include "lib/plan/cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/units.hpp"
#include "lib/config/json.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

/// Sections that every cluster file has.
constexpr std::array kSections{"gpu", "node_links", "rails", "engine"};
constexpr std::size_t kMostRows = 4096;  ///< of a table: far beyond any use

struct Range {
  double least;
  double most;
};
constexpr Range kShare{0, 1};
constexpr Range kRate{1e-6, 1e7};
constexpr Range kLatency{0, 1e9};
constexpr Range kAmount{0, 1e15};
constexpr Range kSize{1, 1e9};
constexpr Range kReductions{1, 2};  ///< as many as a schedule has under way

/// Reads the keys of one object, and refuses those that nobody asked for.
class Section {
 public:
  Section(const json& object, std::string name, std::string path)
      : object_(object), name_(std::move(name)), path_(std::move(path)) {
    if (!object.is_object()) fail("", "an object");
  }

  double number(const std::string& key, Range range) {
    const json& value = required(key);
    const std::string allowed = fmt::format("a number from {:g} to {:g}", range.least, range.most);
    if (!value.is_number()) fail(key, allowed);
    const double number = value.get<double>();
    if (!(number >= range.least && number <= range.most)) fail(key, allowed);
    return number;
  }
  double number(const std::string& key, Range range, double otherwise) {
    return has(key) ? number(key, range) : otherwise;
  }
  std::size_t count(const std::string& key, Range range = kSize) {
    const double value = number(key, range);
    if (value != std::floor(value)) fail(key, "a whole number");
    return static_cast<std::size_t>(value);
  }
  std::string text(const std::string& key) {
    const json& value = required(key);
    if (!value.is_string()) fail(key, "text");
    return value.get<std::string>();
  }
  Section section(const std::string& key) { return {required(key), name_, joined(key)}; }
  /// A list of objects, at least one.
  std::vector<Section> rows(const std::string& key) {
    const json& value = required(key);
    if (!value.is_array() || value.empty() || value.size() > kMostRows) {
      fail(key, fmt::format("a list of 1 to {} objects", kMostRows));
    }
    std::vector<Section> rows;
    for (std::size_t i = 0; i < value.size(); ++i) {
      rows.emplace_back(value[i], name_, fmt::format("{}.{}", joined(key), i));
    }
    return rows;
  }
  /// Tells whether the object has a key that may be missing.
  bool has(const std::string& key) {
    known_.push_back(key);
    return object_.contains(key);
  }
  /// Lists the objects of a key as rows() does; a key that is missing has none.
  std::vector<Section> optional_rows(const std::string& key) {
    return has(key) ? rows(key) : std::vector<Section>{};
  }
  /// After the last key.
  void done() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        throw Error(ExitCode::usage, fmt::format("{}: unknown key {} (nearest known: {})", name_,
                                                 joined(key), joined(nearest(key, known_))));
      }
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& allowed) const {
    throw Error(ExitCode::usage, fmt::format("{}: {} must be {}", name_, joined(key), allowed));
  }

 private:
  [[nodiscard]] std::string joined(const std::string& key) const {
    if (key.empty()) return path_.empty() ? "the file" : path_;
    return path_.empty() ? key : path_ + "." + key;
  }
  const json& required(const std::string& key) {
    known_.push_back(key);
    const auto found = object_.find(key);
    if (found == object_.end()) {
      throw Error(ExitCode::usage, fmt::format("{}: {} is missing: inputs/clusters/README.md says "
                                               "what it is",
                                               name_, joined(key)));
    }
    return *found;
  }

  const json& object_;
  std::string name_;
  std::string path_;
  std::vector<std::string> known_;
};

Gpu read_gpu(Section in) {
  Gpu gpu;
  gpu.name = in.text("name");
  const double peak = in.number("peak_tflops", kRate);
  const Range reached{kRate.least, peak};
  gpu.peak = peak * kTera;
  gpu.memory = in.number("memory_gib", kRate) * kGibibyte;
  gpu.memory_rate = in.number("memory_gb_per_s", kRate) * kGiga;
  gpu.step_share = in.number("step_share", {0.01, 1}, gpu.step_share);
  gpu.layer_gap = in.number("layer_gap_us", kLatency, 0) * kMicro;
  for (Section& row : in.rows("products")) {
    gpu.products.push_back({.rows = row.count("rows"),
                            .in = row.count("in"),
                            .out = row.count("out"),
                            .forward = row.number("forward_tflops", reached) * kTera,
                            .backward = row.number("backward_tflops", reached) * kTera});
    row.done();
  }
  for (Section& row : in.rows("attention")) {
    gpu.attention.push_back({.sequence = row.count("sequence"),
                             .head_size = row.count("head_size"),
                             .forward = row.number("forward_tflops", reached) * kTera,
                             .backward = row.number("backward_tflops", reached) * kTera});
    row.done();
  }
  in.done();
  return gpu;
}

NodeLinks read_node_links(Section in) {
  NodeLinks links{.latency = in.number("latency_us", kLatency) * kMicro,
                  .hop_latency = in.number("hop_latency_us", kLatency, 0) * kMicro,
                  .rate = in.number("gb_per_s", kRate) * kGiga,
                  .most = 0,
                  .gpu_share = in.number("gpu_share", {0, 0.95}, 0),
                  .copies_rate = in.number("copies_gb_per_s", kRate, 0) * kGiga,
                  .copies_gpu_share = in.number("copies_gpu_share", {0, 0.95}, 0)};
  const double one = links.rate / kGiga;
  links.most = in.number("most_gb_per_s", {one, kRate.most}, one) * kGiga;
  in.done();
  return links;
}

Rails read_rails(Section in) {
  Rails rails{.links_per_node = in.number("links_per_node", kRate),
              .ring_rate = in.number("ring_gb_per_s", kRate, 0) * kGiga,
              .hop_latency = in.number("hop_latency_us", kLatency, 0) * kMicro,
              .lanes = {},
              .gpu_share = in.number("gpu_share", {0, 0.95}, 0),
              .sold_share = in.number("sold_share", {0.01, 1}, 1)};
  for (Section& row : in.rows("lanes")) {
    LaneRate lane{.lanes = row.count("lanes"),
                  .latency = row.number("latency_us", kLatency) * kMicro,
                  .rate = row.number("gb_per_s", kRate) * kGiga,
                  .sizes = {}};
    for (Section& size : row.optional_rows("sizes")) {
      lane.sizes.push_back({.bytes = size.number("mib", kRate) * kMebibyte,
                            .rate = size.number("gb_per_s", kRate) * kGiga});
      size.done();
      if (lane.sizes.size() < 2) continue;
      if (lane.sizes.back().bytes <= lane.sizes[lane.sizes.size() - 2].bytes) {
        size.fail("mib", "more than in the row before");
      }
    }
    if (!rails.lanes.empty() && lane.lanes <= rails.lanes.back().lanes) {
      row.fail("lanes", "more than in the row before");
    }
    row.done();
    rails.lanes.push_back(lane);
  }
  in.done();
  return rails;
}

Host read_host(Section in) {
  const double link = in.number("link_gb_per_s", kRate);
  const Host host{.link_rate = link * kGiga,
                  .memory_rate = in.number("memory_gb_per_s", kRate) * kGiga,
                  .pageable_rate = in.number("pageable_gb_per_s", kRate, link) * kGiga};
  in.done();
  return host;
}

EngineModel read_engine(Section in) {
  EngineModel engine{.overlap = in.number("overlap", kShare),
                     .max_live_parameters = in.number("max_live_parameters", kAmount, 0),
                     .bytes_per_parameter = in.number("bytes_per_parameter", kAmount, 0)};
  if (in.has("reductions_at_a_time")) {
    engine.reductions_at_a_time = in.count("reductions_at_a_time", kReductions);
  }
  in.done();
  return engine;
}

}  // namespace

double LaneRate::rate_of(double bytes) const {
  const auto above = std::ranges::lower_bound(sizes, bytes, {}, &SizeRate::bytes);
  if (above == sizes.end()) return rate;
  if (above == sizes.begin()) return above->rate;
  const SizeRate& below = *std::prev(above);
  return std::lerp(below.rate, above->rate,
                   std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes));
}

const LaneRate& Rails::with(std::size_t lanes_used) const {
  const auto above =
      std::upper_bound(lanes.begin(), lanes.end(), lanes_used,
                       [](std::size_t wanted, const LaneRate& row) { return wanted < row.lanes; });
  return above == lanes.begin() ? *above : *std::prev(above);
}

Cluster parse_cluster(const std::string& text, const std::string& name) {
  const json object = config::parse_object(text, name);
  const auto has = [&](const char* section) {
    return object.contains(section) && object.at(section).is_structured();
  };
  if (std::ranges::none_of(kSections, has)) {
    throw Error(ExitCode::usage,
                fmt::format("{} is no cluster file: it has none of the sections {}: name a file of "
                            "inputs/clusters, or what zpp_plan calibrate wrote",
                            name, fmt::join(kSections, ", ")));
  }
  Section in(object, name, "");
  Cluster cluster;
  cluster.name = in.text("name");
  cluster.source = in.text("source");
  cluster.nodes = in.count("nodes");
  cluster.gpus_per_node = in.count("gpus_per_node");
  cluster.gpu = read_gpu(in.section("gpu"));
  cluster.node_links = read_node_links(in.section("node_links"));
  cluster.rails = read_rails(in.section("rails"));
  if (in.has("host")) cluster.host = read_host(in.section("host"));
  cluster.engine = read_engine(in.section("engine"));
  in.done();
  return cluster;
}

Cluster read_cluster(const std::filesystem::path& path) {
  const std::string text = config::read_config_text(
      path, "the cluster file",
      "--cluster (inputs/clusters has some, and --gpu with --node-gbit needs none)");
  return parse_cluster(text, path.string());
}

json to_json(const Cluster& cluster) {
  json products = json::array();
  for (const ProductRate& row : cluster.gpu.products) {
    products.push_back({{"rows", row.rows},
                        {"in", row.in},
                        {"out", row.out},
                        {"forward_tflops", row.forward / kTera},
                        {"backward_tflops", row.backward / kTera}});
  }
  json attention = json::array();
  for (const AttentionRate& row : cluster.gpu.attention) {
    attention.push_back({{"sequence", row.sequence},
                         {"head_size", row.head_size},
                         {"forward_tflops", row.forward / kTera},
                         {"backward_tflops", row.backward / kTera}});
  }
  json lanes = json::array();
  for (const LaneRate& row : cluster.rails.lanes) {
    json made{
        {"lanes", row.lanes}, {"latency_us", row.latency / kMicro}, {"gb_per_s", row.rate / kGiga}};
    for (const SizeRate& size : row.sizes) {
      made["sizes"].push_back({{"mib", size.bytes / kMebibyte}, {"gb_per_s", size.rate / kGiga}});
    }
    lanes.push_back(std::move(made));
  }
  json rails{{"links_per_node", cluster.rails.links_per_node},
             {"hop_latency_us", cluster.rails.hop_latency / kMicro},
             {"lanes", lanes},
             {"gpu_share", cluster.rails.gpu_share}};
  if (cluster.rails.sold_share < 1) rails["sold_share"] = cluster.rails.sold_share;
  if (cluster.rails.ring_rate > 0) rails["ring_gb_per_s"] = cluster.rails.ring_rate / kGiga;
  json made{{"name", cluster.name},
            {"source", cluster.source},
            {"nodes", cluster.nodes},
            {"gpus_per_node", cluster.gpus_per_node},
            {"gpu",
             {{"name", cluster.gpu.name},
              {"peak_tflops", cluster.gpu.peak / kTera},
              {"memory_gib", cluster.gpu.memory / kGibibyte},
              {"memory_gb_per_s", cluster.gpu.memory_rate / kGiga},
              {"step_share", cluster.gpu.step_share},
              {"layer_gap_us", cluster.gpu.layer_gap / kMicro},
              {"products", products},
              {"attention", attention}}},
            {"node_links",
             {{"latency_us", cluster.node_links.latency / kMicro},
              {"hop_latency_us", cluster.node_links.hop_latency / kMicro},
              {"gb_per_s", cluster.node_links.rate / kGiga},
              {"most_gb_per_s", cluster.node_links.most / kGiga},
              {"gpu_share", cluster.node_links.gpu_share}}},
            {"rails", rails},
            {"engine",
             {{"overlap", cluster.engine.overlap},
              {"max_live_parameters", cluster.engine.max_live_parameters},
              {"bytes_per_parameter", cluster.engine.bytes_per_parameter},
              {"reductions_at_a_time", cluster.engine.reductions_at_a_time}}}};
  if (cluster.node_links.copies_rate > 0) {
    made["node_links"]["copies_gb_per_s"] = cluster.node_links.copies_rate / kGiga;
    made["node_links"]["copies_gpu_share"] = cluster.node_links.copies_gpu_share;
  }
  if (cluster.host.known()) {
    made["host"] = {{"link_gb_per_s", cluster.host.link_rate / kGiga},
                    {"memory_gb_per_s", cluster.host.memory_rate / kGiga},
                    {"pageable_gb_per_s", cluster.host.pageable_rate / kGiga}};
  }
  return made;
}

}  // namespace zeropp::plan
