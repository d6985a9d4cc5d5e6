// How long the optimizer takes on the host: pieces of the gradients come over the GPU's link, are
// stepped, and weights go back, through as many staging buffers as the engine has and in its order.
// The host waits for each piece and starts nothing else meanwhile. Pure functions; seconds.
#pragma once

#include <vector>

#include "kernels/optim/options.hpp"
#include "lib/config/train_config.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

/// One rank's way to the host and its part of it.
struct HostRates {
  double link = 0;    ///< bytes/s, each direction
  double memory = 0;  ///< bytes/s, read + written, whoever does: the processors or the link
};

/// Bytes that the optimizer keeps for a parameter beside its master weight.
double moment_bytes(const optim::Options& optimizer);

/// By unit: from the end of the unit's before it, or the begin of the first, until its update
/// returns; with the last, until the last weights have arrived. `counts`, by unit: elements that a
/// rank updates, of which the options' share is offloaded.
std::vector<double> offloaded_updates(const std::vector<std::size_t>& counts,
                                      const config::TrainConfig& config, const HostRates& host);

}  // namespace zeropp::plan
