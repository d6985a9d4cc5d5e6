// Fills a cluster's rates from measurements. Pure functions over JSON that was read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

/// One message size: bytes that a rank sends, and the median of its times in seconds.
struct TransferTime {
  double bytes = 0;
  double seconds = 0;
};

struct LinkFit {
  double latency = 0;  ///< s, at least 0
  double rate = 0;     ///< bytes/s
};

/// seconds = latency + bytes / rate, with the least squares of the relative errors. Throws
/// std::invalid_argument for fewer than two sizes, or times that do not grow with them.
LinkFit fit_link(const std::vector<TransferTime>& times);

/// Takes the rates of `measured` over into `cluster`, and appends to cluster.source. `name`: of the
/// measurement, for messages. A zpp_kernels run gives the GPU's name, memory rate, and the rates of
/// products and attention, those in 16 bits where there are any. A zpp_sweep run gives the
/// uncompressed all-gathers of `native`: on one node the links inside it, on several nodes the
/// vendor's ring across them. bench_rails gives the rails, one per rank, by the size of messages,
/// without the time to launch and to wait for each sample. This time is what short messages inside
/// a node take beyond cluster.node_links.latency, so links inside a node come first. Throws
/// Error(usage) for anything else.
void calibrate(Cluster& cluster, const nlohmann::json& measured, const std::string& name);

}  // namespace zeropp::plan
