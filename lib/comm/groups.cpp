#include <initializer_list>
#include <utility>

#include "lib/base/status.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::comm {

Buffer Groups::make_memory(std::size_t bytes) const {
  return copy_engines ? Buffer::shareable(bytes, memory) : Buffer(bytes, memory);
}

std::vector<std::unique_ptr<OfferedMemory>> Groups::offer(const Buffer& buffer,
                                                          Control& control) const {
  std::vector<std::unique_ptr<OfferedMemory>> offers;
  if (!copy_engines) return offers;
  for (const auto* group : {&world, &node, &rail, &secondary, &replicas}) {
    if (!*group) continue;
    control.agree(status_of([&] { offers.push_back((*group)->offer(buffer.span())); }));
  }
  if (shards) {
    for (auto& offer : shards->offer(buffer, control)) offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace zeropp::comm
