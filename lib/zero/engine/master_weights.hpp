// The fp32 master weights of all ranks, in the order of canonical shards: the same at every stage
// and on any topology; and hashes of the copies that weight differences are added to, which are
// equal where every bit is. Collective, through the control plane: for hashes, export and tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/zero/engine/checkpoint_state.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"

namespace zeropp::zero {

/// SHA-256 over the master weights of all units. On every rank.
std::string parameters_hash(const EngineContext& context, const CheckpointState& state);

/// A unit's master weights, flat (Unit::count elements), on rank 0; empty elsewhere.
std::vector<float> gather_master(const EngineContext& context, const CheckpointState& state,
                                 std::size_t unit);

/// By node or, at stages 1 and 2, by rank, on rank 0 (elsewhere empty): SHA-256 over the digests of
/// the shards of all units, in order, as it has them. Waits for the work before. Empty without
/// weight differences.
std::vector<std::string> copy_hashes(const EngineContext& context, const RankMemory& memory);

}  // namespace zeropp::zero
