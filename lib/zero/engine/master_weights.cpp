#include "lib/zero/engine/master_weights.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "lib/base/sha256.hpp"
#include "lib/base/status.hpp"

namespace zeropp::zero {

namespace {

/// Every rank's text, by canonical shard, on rank 0.
std::vector<std::string> gather_by_shard(const EngineContext& context, const std::string& part) {
  std::vector<std::string> of_ranks = context.control.gather(part);
  std::vector<std::string> of_shards(of_ranks.size());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    of_shards[canonical_shard(rank, context.world_size(), context.shard_groups())] =
        std::move(of_ranks[rank]);
  }
  return of_shards;
}

}  // namespace

std::string parameters_hash(const EngineContext& context, const CheckpointState& state) {
  Sha256 own;
  for (std::size_t u = 0; u < context.units().size(); ++u) {
    own.update(state.fetch_master(u));
  }
  Sha256 all;
  for (const std::string& digest : gather_by_shard(context, own.hex())) {
    all.update(std::as_bytes(std::span(digest)));
  }
  return context.control.broadcast(all.hex());
}

std::vector<float> gather_master(const EngineContext& context, const CheckpointState& state,
                                 std::size_t unit) {
  std::vector<float> full;
  std::string own;
  context.control.agree(status_of([&] {
    if (context.control.rank() == 0) full.reserve(context.units()[unit].padded);
    const std::vector<std::byte> shard = state.fetch_master(unit);
    own.assign(reinterpret_cast<const char*>(shard.data()), shard.size());
  }));
  for (std::string& part : gather_by_shard(context, own)) {
    const std::size_t at = full.size();
    full.resize(at + part.size() / sizeof(float));
    std::memcpy(full.data() + at, part.data(), part.size());
    part = {};  // gigabytes, of which rank 0 has all
  }
  if (!full.empty()) full.resize(context.units()[unit].flat);
  return full;
}

}  // namespace zeropp::zero
