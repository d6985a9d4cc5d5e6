// Descriptions of collectives: what one moves and takes, as closed forms, pure functions of
// algorithm, ranks and plan. Runners are what their descriptions say (the registry's entries make
// both); a planner needs nothing else, no communicator and no memory.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/codec/exact.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::collective {

/// Numbers of messages, by link class as bytes are.
using Messages = comm::Bytes;

/// Ranks that take part, as one of them sees them: those of `group`; hierarchical algorithms use
/// the node and the rail of `levels` and need group == levels.world.
struct Ranks {
  comm::LevelShape levels;
  comm::GroupShape group;
};

/// Traffic of one rank in one run.
struct Traffic {
  comm::Bytes bytes;  ///< that it sends
  Messages messages;  ///< to other ranks that carry them; of `modelled` algorithms those of a ring
};

struct Description : Traffic {
  std::size_t workspace = 0;  ///< bytes that a run is lent
  trace::CollectiveRow row;   ///< that runs are counted in: its keys alone
  std::size_t runs = 1;       ///< that are in flight together; bytes of all of them
};

/// Traits of a registered algorithm. Throws Error(usage), with the nearest known name, for an
/// unknown one.
const Traits& all_gather_traits(std::string_view algorithm);
const Traits& reduce_scatter_traits(std::string_view algorithm);

/// Descriptions of the collectives that plan_all_gather() and plan_reduce_scatter() would make;
/// they throw what those throw.
Description describe_all_gather(std::string_view algorithm, const Ranks&, const AllGatherPlan&);
Description describe_reduce_scatter(std::string_view algorithm, const Ranks&,
                                    const ReduceScatterPlan&);

/// Description of an ExactGather (exact_gather.hpp) whose images have `shape`; its workspace is
/// enough for images of any shape. `algorithm`: direct or two-level.
Description describe_exact_gather(std::string_view algorithm, const Ranks&, const ExactGatherPlan&,
                                  const codec::ExactShape& shape);

/// Bytes that a rank sends to the others of `group` at `bytes` each.
comm::Bytes bytes_to_others(const comm::GroupShape& group, std::size_t bytes);

/// Bytes that a rank sends along a ring of size - 1 steps at `bytes` each.
comm::Bytes bytes_along_ring(const comm::GroupShape& group, std::size_t bytes);

/// Messages that a rank sends: so many to everyone, or in every step of a ring.
inline Messages messages_to_others(const comm::GroupShape& group, std::size_t messages) {
  return bytes_to_others(group, messages);
}
inline Messages messages_along_ring(const comm::GroupShape& group, std::size_t messages) {
  return bytes_along_ring(group, messages);
}

/// Ranges of the part of an all-gather, in elements, each of which has an image of its own: what
/// image_chunks() of its runner has (collective.hpp), without a communicator.
std::vector<Chunk> image_chunks(const Traits& traits, const AllGatherPlan& plan);
/// Ranges for the all-gather of this name. Throws Error(usage) for an unknown algorithm.
std::vector<Chunk> image_chunks(std::string_view all_gather, const AllGatherPlan& plan);

}  // namespace zeropp::collective
