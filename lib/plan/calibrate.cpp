#include "lib/plan/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

#include "lib/base/error.hpp"
#include "lib/base/statistics.hpp"
#include "lib/base/units.hpp"

namespace zeropp::plan {

namespace {

using nlohmann::json;

/// Both rates of one shape, as kernels of either direction tell them.
struct Rates {
  double forward = 0;
  double backward = 0;
};

/// Units are larger; small messages would count as much as all others.
constexpr double kSmallestMessage = 1 << 22;

Error unknown(const std::string& name, const std::string& why) {
  return {ExitCode::usage,
          fmt::format("{}: {}: give what zpp_kernels --json, zpp_sweep --json or bench_rails "
                      "wrote",
                      name, why)};
}

/// "8192x1600x4800" -> its three numbers; false for another form.
template <std::size_t N>
bool read_shape(const std::string& text, std::array<std::size_t, N>& numbers) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t end = i + 1 < N ? text.find('x', at) : text.size();
    if (end == std::string::npos || end == at || end - at > 9) return false;
    if (!std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char c) { return c >= '0' && c <= '9'; })) {
      return false;
    }
    numbers.at(i) = std::stoul(text.substr(at, end - at));
    if (numbers.at(i) == 0) return false;
    at = end + 1;
  }
  return true;
}

/// linear_gelu_forward and linear_forward measure the same product. Rows in fp32 count only where
/// there are none in 16 bits, as in gpu.peak.
template <std::size_t N>
std::map<std::array<std::size_t, N>, Rates> rates_of(const json& rows, const std::string& prefix) {
  std::map<std::array<std::size_t, N>, Rates> rates;
  const auto is_wide = [](const json& row) { return row.at("dtype") == "fp32"; };
  const bool narrow = std::any_of(rows.begin(), rows.end(), [&](const json& row) {
    return row.at("kernel").get<std::string>().starts_with(prefix) && !is_wide(row);
  });
  for (const json& row : rows) {
    if (narrow && is_wide(row)) continue;
    const std::string kernel = row.at("kernel");
    std::array<std::size_t, N> shape{};
    if (!kernel.starts_with(prefix) || row.at("verdict") != "VALID" ||
        !read_shape(row.at("shape"), shape)) {
      continue;
    }
    const double rate = row.at("flops").get<double>() * kGiga;
    (kernel.ends_with("backward") ? rates[shape].backward : rates[shape].forward) = rate;
  }
  std::erase_if(rates, [](const auto& entry) {
    return !(entry.second.forward > 0) || !(entry.second.backward > 0);
  });
  return rates;
}

void calibrate_gpu(Gpu& gpu, const json& kernels, const std::string& name) {
  const auto products = rates_of<3>(kernels.at("rows"), "linear_");
  const auto attention = rates_of<4>(kernels.at("rows"), "attention_");
  if (products.empty() || attention.empty()) {
    throw unknown(name,
                  "no shape of linear or attention with both directions (measured with --filter)");
  }
  const std::string device = kernels.at("device");
  if (gpu.name != device) {  // another's rates are not its
    gpu.products.clear();
    gpu.attention.clear();
  }
  gpu.name = device;
  for (const json& ceiling : kernels.at("ceilings")) {
    if (ceiling.at("name") == "copy") gpu.memory_rate = ceiling.at("rate");
  }
  for (const auto& [shape, rates] : products) {
    std::erase_if(gpu.products, [&, &shape = shape](const ProductRate& row) {
      return row.rows == shape[0] && row.in == shape[1] && row.out == shape[2];
    });
    gpu.products.push_back({.rows = shape[0],
                            .in = shape[1],
                            .out = shape[2],
                            .forward = rates.forward,
                            .backward = rates.backward});
  }
  for (const auto& [shape, rates] : attention) {
    std::erase_if(gpu.attention, [&, &shape = shape](const AttentionRate& row) {
      return row.sequence == shape[1] && row.head_size == shape[3];
    });
    gpu.attention.push_back({.sequence = shape[1],
                             .head_size = shape[3],
                             .forward = rates.forward,
                             .backward = rates.backward});
  }
}

void calibrate_links(Cluster& cluster, const json& sweep, const std::string& name) {
  const json& run = sweep.at("provenance");
  const auto ranks = run.at("world_size").get<double>();
  if (ranks < 2) throw unknown(name, "a sweep of one rank");
  std::vector<TransferTime> times;
  for (const json& row : sweep.at("results")) {
    const auto bytes = row.at("size").get<double>() * (ranks - 1) / ranks;
    const json& measured = row.at("out_of_place");
    if (row.at("collective") != "all_gather" || row.at("algorithm") != "native" ||
        row.at("codec") != "none" || bytes < kSmallestMessage || measured.at("verdict") != "VALID")
      continue;
    times.push_back({bytes, measured.at("p50").get<double>() * kMicro});
  }
  const LinkFit fit = fit_link(times);
  if (run.at("node_count") != 1) {  // a ring: what passes a rank leaves each node
    cluster.rails.ring_rate = fit.rate;
    return;
  }
  NodeLinks& links = cluster.node_links;
  links.latency = fit.latency;
  links.rate = fit.rate;
  links.most = std::max(links.most, fit.rate);
}

/// Time of every sample of bench_rails beside its transfer: the host launches it, and waits.
double sampling_seconds(const std::map<std::size_t, std::vector<TransferTime>>& inside_node,
                        const NodeLinks& links) {
  if (inside_node.empty()) return 0;
  const TransferTime& shortest = inside_node.begin()->second.front();
  return std::max(0.0, shortest.seconds - links.latency - shortest.bytes / links.rate);
}

/// The latency that the shortest messages show, and the rate of each larger one without it.
LaneRate lane_rate(std::size_t lanes, std::vector<TransferTime> times, double sampling) {
  for (TransferTime& time : times) time.seconds -= sampling;
  const auto shortest = std::min<std::size_t>(times.size(), 3);
  LaneRate made{.lanes = lanes,
                .latency = fit_link({times.begin(), times.begin() + shortest}).latency,
                .rate = 0,
                .sizes = {}};
  for (const auto& [bytes, seconds] : times) {
    if (bytes < kSmallestMessage) continue;
    made.rate = bytes / (seconds - made.latency);
    if (!(made.rate > 0)) throw std::invalid_argument("times that do not grow with the size");
    made.sizes.push_back({.bytes = bytes, .rate = made.rate});
  }
  if (made.sizes.empty()) throw std::invalid_argument("no message of 4 MiB or more");
  return made;
}

void calibrate_rails(Cluster& cluster, const json& rails, const std::string& name) {
  std::map<std::string, std::map<std::size_t, std::vector<TransferTime>>> groups;
  for (const json& row : rails.at("rows")) {
    const auto bytes = row.at("bytes_a_peer").get<double>() * row.at("peers").get<double>();
    const double seconds = summarize(row.at("seconds").get<std::vector<double>>()).median;
    groups[row.at("group")][row.at("lanes").get<std::size_t>()].push_back({bytes, seconds});
  }
  for (auto& [group, by_lanes] : groups) {
    for (auto& [lanes, times] : by_lanes) std::ranges::sort(times, {}, &TransferTime::bytes);
  }
  const auto ranks = rails.at("ranks").get<std::size_t>();
  const auto node_size = rails.at("node_size").get<std::size_t>();
  if (groups["rail"].empty() || node_size == 0 || ranks < 2 * node_size) {
    throw unknown(name, "no rails between nodes");
  }
  cluster.gpus_per_node = node_size;
  cluster.nodes = ranks / node_size;
  cluster.rails.links_per_node = static_cast<double>(cluster.gpus_per_node);
  const double sampling = sampling_seconds(groups["node"], cluster.node_links);
  std::vector<LaneRate> made;
  for (const auto& [lanes, times] : groups["rail"]) {
    made.push_back(lane_rate(lanes, times, sampling));
  }
  cluster.rails.lanes = std::move(made);
}

}  // namespace

LinkFit fit_link(const std::vector<TransferTime>& times) {
  // Minimise the sum of (1 - (a + b x) / t)^2: the normal equations with weights 1 / t^2.
  double one = 0;
  double x = 0;
  double xx = 0;
  double y = 0;
  double xy = 0;
  for (const auto& [bytes, seconds] : times) {
    const double weight = 1 / (seconds * seconds);
    one += weight;
    x += weight * bytes;
    xx += weight * bytes * bytes;
    y += weight * seconds;
    xy += weight * bytes * seconds;
  }
  const double determinant = one * xx - x * x;
  if (times.size() < 2 || !(determinant > 1e-12 * one * xx)) {
    throw std::invalid_argument("fit_link: at least two sizes");
  }
  double slope = (one * xy - x * y) / determinant;
  double latency = (y - slope * x) / one;
  if (latency < 0) {  // the best of those through the origin
    latency = 0;
    slope = xy / xx;
  }
  if (!(slope > 0)) throw std::invalid_argument("fit_link: times do not grow with the size");
  return {.latency = latency, .rate = 1 / slope};
}

void calibrate(Cluster& cluster, const json& measured, const std::string& name) {
  try {
    const std::string schema = measured.value("schema", "");
    if (schema == "zeropp-kernels") {
      calibrate_gpu(cluster.gpu, measured, name);
    } else if (schema == "zeropp-sweep") {
      calibrate_links(cluster, measured, name);
    } else if (measured.contains("node_size")) {
      calibrate_rails(cluster, measured, name);
    } else {
      throw unknown(name, "no measurement of kernels or links");
    }
  } catch (const json::exception& error) {
    throw unknown(name, error.what());
  } catch (const std::invalid_argument& error) {
    throw unknown(name, error.what());
  }
  cluster.source += (cluster.source.empty() ? "" : "; ") + name;
}

}  // namespace zeropp::plan
