#include "lib/zero/engine/master_weights.hpp"

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
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

namespace {

constexpr std::size_t kDigits = 64;  // of a SHA-256 in hexadecimal

/// Digests of the pieces that this rank holds, piece by piece of unit by unit.
std::string own_digests(const EngineContext& context, const RankMemory& memory) {
  const Stream& compute = context.compute();
  context.executor.join();
  compute.synchronize();  // the copy to pageable memory would wait unwatched
  std::string digests;
  for (std::size_t u = 0; u < context.units().size(); ++u) {
    const UnitPartition& unit = context.units()[u];
    const View copy = memory.copy(u);
    std::vector<std::byte> bytes(copy.bytes());
    compute.copy(bytes.data(), static_cast<const std::byte*>(copy.data), bytes.size());
    compute.synchronize();
    const std::size_t piece = unit.shard * size_of(copy.dtype);
    for (std::size_t k = 0; k < copy.count / unit.shard; ++k) {
      Sha256 digest;
      digest.update(std::span<const std::byte>(bytes).subspan(k * piece, piece));
      digests += digest.hex();
    }
  }
  return digests;
}

}  // namespace

std::vector<std::string> copy_hashes(const EngineContext& context, const RankMemory& memory) {
  std::vector<std::string> hashes;
  if (!context.options.weight_differences.enabled) return hashes;
  const std::vector<std::string> of_ranks = context.control.gather(own_digests(context, memory));
  const std::size_t ranks_per_node = context.options.hpz_partition_size;  // 1: each has it all
  for (std::size_t first = 0; first < of_ranks.size(); first += ranks_per_node) {
    Sha256 node;
    for (std::size_t at = 0; at < of_ranks[first].size(); at += kDigits) {
      for (std::size_t local = 0; local < ranks_per_node; ++local) {
        const auto digest = std::string_view(of_ranks[first + local]).substr(at, kDigits);
        node.update(std::as_bytes(std::span(digest)));
      }
    }
    hashes.push_back(node.hex());
  }
  return hashes;
}

}  // namespace zeropp::zero
