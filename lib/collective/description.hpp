// What a collective moves and takes, as closed forms: pure functions of algorithm, ranks and plan.
// Runners are what their descriptions say (the registry's entries make both); a planner needs
// nothing else, no communicator and no memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::collective {

/// Numbers of messages, by link class as bytes are.
using Messages = comm::Bytes;

/// Who takes part, as one of them sees it: `group`; hierarchical algorithms use the node and the
/// rail of `levels` and need group == levels.world.
struct Ranks {
  comm::LevelShape levels;
  comm::GroupShape group;
};

/// Of one rank in one run.
struct Traffic {
  comm::Bytes bytes;  ///< that it sends
  Messages messages;  ///< to other ranks that carry them; of `modelled` algorithms those of a ring
};

struct Description : Traffic {
  std::size_t workspace = 0;  ///< bytes that a run is lent
  trace::CollectiveRow row;   ///< that runs are counted in: its keys alone
};

/// Throw Error(usage) for an unknown name, with the nearest known.
const Traits& reduce_scatter_traits(std::string_view algorithm);

/// As plan_all_gather() and plan_reduce_scatter() would make them, whose refusals these throw.
Description describe_all_gather(std::string_view algorithm, const Ranks&, const AllGatherPlan&);
Description describe_reduce_scatter(std::string_view algorithm, const Ranks&,
                                    const ReduceScatterPlan&);

/// What a rank sends to the others of `group` at `bytes` each.
comm::Bytes bytes_to_others(const comm::GroupShape& group, std::size_t bytes);

/// What a rank sends along a ring of size - 1 steps at `bytes` each.
comm::Bytes bytes_along_ring(const comm::GroupShape& group, std::size_t bytes);

/// The same of messages: so many to everyone, or in every step.
inline Messages messages_to_others(const comm::GroupShape& group, std::size_t messages) {
  return bytes_to_others(group, messages);
}
inline Messages messages_along_ring(const comm::GroupShape& group, std::size_t messages) {
  return bytes_along_ring(group, messages);
}

}  // namespace zeropp::collective
