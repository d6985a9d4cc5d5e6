// Hashes of the copies of the weights that nodes, or at stages 1 and 2 ranks, hold with weight
// differences: equal where every bit is. Collective; through the control plane.
#pragma once

#include <string>
#include <vector>

#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"

namespace zeropp::zero {

/// By node or, at stages 1 and 2, by rank, on rank 0 (elsewhere empty): SHA-256 over the digests of
/// the shards of all units, in order, as it has them. Waits for the work before. Empty without
/// weight differences.
std::vector<std::string> copy_hashes(const EngineContext& context, const RankMemory& memory);

}  // namespace zeropp::zero
