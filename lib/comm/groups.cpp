#include "lib/comm/groups.hpp"

#include <initializer_list>
#include <utility>

#include "lib/base/status.hpp"

namespace zeropp::comm {

LevelShape Groups::levels() const {
  LevelShape levels{.topology = topology, .world = {}, .node = {}, .rail = {}};
  if (world) levels.world = world->shape();
  if (node) levels.node = node->shape();
  if (rail) levels.rail = rail->shape();
  return levels;
}

JobShape Groups::shape() const {
  JobShape job{levels(), {}, {}, {}};
  if (secondary) job.secondary = secondary->shape();
  if (shards) job.shards = shards->levels();
  if (replicas) job.replicas = replicas->shape();
  return job;
}

Buffer Groups::make_memory(std::size_t bytes) const {
  return copy_engines ? Buffer::registrable(bytes, memory) : Buffer(bytes, memory);
}

std::vector<std::unique_ptr<RegisteredMemory>> Groups::register_memory(const Buffer& buffer,
                                                                       Control& control) const {
  std::vector<std::unique_ptr<RegisteredMemory>> registered;
  if (!copy_engines) return registered;
  for (const auto* group : {&world, &node, &rail, &secondary, &replicas}) {
    if (!*group) continue;
    control.agree(
        status_of([&] { registered.push_back((*group)->register_memory(buffer.span())); }));
  }
  if (shards) {
    for (auto& one : shards->register_memory(buffer, control)) registered.push_back(std::move(one));
  }
  return registered;
}

}  // namespace zeropp::comm
