// What the optimizer of a step takes: the norm of the gradients, and each unit's update on the GPU,
// on the host, or on both. Pure functions; seconds.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/plan/cluster.hpp"
#include "lib/plan/simulate.hpp"
#include "lib/plan/workload.hpp"

namespace zeropp::plan {

/// Whether gathers of a unit's weights start from an image that its update made.
bool keeps_image(const Workload& work, std::size_t unit);

/// Whether a unit's refresh sends an image that its update wrote there.
bool writes_refresh(const Workload& work, std::size_t unit);

/// Refers to what it is made of. The options' offload is to what the cluster knows of.
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

}  // namespace zeropp::plan
