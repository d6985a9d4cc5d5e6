#include "lib/zero/engine/copy_hashes.hpp"

#include <cstddef>
#include <span>
#include <string_view>

#include "lib/base/sha256.hpp"

namespace zeropp::zero {

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
