// How long a collective takes: the kernels that encode and decode, from the bytes that they move in
// memory, and its transfers, from latency and bandwidth of the links, by algorithm. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/codec/spec.hpp"
#include "kernels/core/dtype.hpp"
#include "lib/collective/plan.hpp"
#include "lib/comm/topology.hpp"
#include "lib/plan/cluster.hpp"
#include "lib/plan/simulate.hpp"

namespace zeropp::plan {

/// Where collectives run: the nodes of a group and its ranks on each of them, which are fewer than
/// the cluster's where the group is not the world (hpZ, shard groups).
struct ClusterGroup {
  const Cluster& cluster;
  std::size_t nodes = 1;
  std::size_t ranks_per_node = 1;
  std::size_t rail_lanes = 1;
  bool copy_engines = false;        ///< move large pieces of one size inside nodes
  std::size_t groups_per_node = 1;  ///< that run there at once, and share its links to others

  [[nodiscard]] std::size_t ranks() const { return nodes * ranks_per_node; }
};

/// Where the image of the own part comes from: the gather encodes it, copies a kept one, or finds
/// it where it is sent from.
enum class OwnImage : std::uint8_t { encoded, copied, in_place };

/// Every rank's `count` elements of `memory` to all, encoded with `codec`.
struct GatherShape {
  std::string algorithm;  ///< resolved
  std::size_t count = 0;
  Dtype memory = Dtype::fp32;
  codec::CodecSpec codec;
  std::size_t depth = 1;  ///< pieces that it is cut into, where the algorithm cuts
  OwnImage own = OwnImage::encoded;
  std::size_t exact_image = 0;  ///< bytes of an image of exact differences; 0: the codec's

  bool operator==(const GatherShape&) const = default;
};
/// Shape of what `algorithm` (resolved) does for a plan.
GatherShape shape_of(std::string_view algorithm, const collective::AllGatherPlan& plan);
/// `bits`: of an exact difference.
GatherShape shape_of(std::string_view algorithm, const collective::ExactGatherPlan& plan,
                     double bits);
/// Throws std::invalid_argument for an algorithm whose times are not known here.
OpCost gather_cost(const GatherShape& shape, const ClusterGroup& group);

/// The sum in fp32 of values of `memory`, `count` for each rank, which travel as `plain` or
/// encoded.
struct ReduceShape {
  std::string algorithm;
  std::size_t count = 0;
  Dtype plain = Dtype::fp32;
  codec::CodecSpec first;
  codec::CodecSpec second;
  std::size_t depth = 1;
  Dtype memory = Dtype::fp32;
  bool dense = true;  ///< the ranks' parts lie one after the other

  bool operator==(const ReduceShape&) const = default;
};
/// Shape of what `algorithm` (resolved) does for a plan.
ReduceShape shape_of(std::string_view algorithm, const collective::ReduceScatterPlan& plan);
OpCost reduce_cost(const ReduceShape& shape, const ClusterGroup& group);

/// A kernel that moves so many bytes of memory.
double kernel_seconds(double bytes, const Cluster& cluster);

}  // namespace zeropp::plan
