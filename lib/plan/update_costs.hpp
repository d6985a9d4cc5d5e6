// Time of the optimizer of a step: the norm of the gradients, and each unit's update on the GPU, on
// the host, or on both. Pure functions; seconds.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/optim/options.hpp"
#include "lib/config/train_config.hpp"
#include "lib/plan/cluster.hpp"
#include "lib/plan/simulate.hpp"
#include "lib/plan/workload.hpp"

namespace zeropp::plan {

/// Whether gathers of a unit's weights start from an image that its update made.
bool keeps_image(const Workload& work, std::size_t unit);

/// Whether a unit's refresh sends an image that its update wrote there.
bool writes_refresh(const Workload& work, std::size_t unit);

/// Refers to the objects that it is made of. The options' offload is to memory that the cluster
/// describes.
class UpdateCosts {
 public:
  UpdateCosts(const Workload& work, const Cluster& cluster);

  /// Cost of a unit's update. The first unit's begins with the norm of all gradients, which every
  /// update waits for; of a run that updates in backward each begins with that of its own.
  [[nodiscard]] OpCost of(std::size_t unit) const;

 private:
  /// Elements of a unit that a rank updates.
  [[nodiscard]] std::size_t updated(std::size_t unit) const;
  [[nodiscard]] bool offloads() const;
  [[nodiscard]] double normed_bytes(std::size_t unit) const;
  [[nodiscard]] double updated_bytes(std::size_t unit) const;

  const Workload& work_;
  const Cluster& cluster_;
  std::vector<double> offloaded_;  ///< s, by unit; empty where nothing is offloaded
};

/// One rank's way to the host and its part of it.
struct HostRates {
  double link = 0;    ///< bytes/s, each direction
  double memory = 0;  ///< bytes/s, read + written, by the processors or by the link
};

/// Bytes that the optimizer keeps for a parameter beside its master weight.
double moment_bytes(const optim::Options& optimizer);

/// Seconds of the optimizer on the host: pieces of the gradients come over the GPU's link, are
/// stepped, and weights go back, through as many staging buffers as the engine has and in its
/// order. The host waits for each piece and starts nothing else meanwhile. By unit: from the end of
/// the unit's before it, or the begin of the first, until its update returns; with the last, until
/// the last weights have arrived. `counts`, by unit: elements that a rank updates, of which the
/// options' share is offloaded.
std::vector<double> offloaded_updates(const std::vector<std::size_t>& counts,
                                      const config::TrainConfig& config, const HostRates& host);

}  // namespace zeropp::plan
