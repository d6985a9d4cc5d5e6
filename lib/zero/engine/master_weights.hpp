// The fp32 master weights of all ranks, in the order of canonical shards: the same at every stage
// and on any topology. Collective, through the control plane: for hashes, export and tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/zero/engine/checkpoint_state.hpp"
#include "lib/zero/engine/engine_context.hpp"

namespace zeropp::zero {

/// SHA-256 over the master weights of all units. On every rank.
std::string parameters_hash(const EngineContext& context, const CheckpointState& state);

/// A unit's master weights, flat (Unit::count elements), on rank 0; empty elsewhere.
std::vector<float> gather_master(const EngineContext& context, const CheckpointState& state,
                                 std::size_t unit);

}  // namespace zeropp::zero
