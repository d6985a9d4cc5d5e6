// What the errors of error feedback take, in closed form.
#pragma once

#include <vector>

#include "lib/comm/shape.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

/// Both copies of the errors of all buckets, in three parts, with the names of the trace: of the
/// two hops among the ranks that share a copy, and of both halves of the sum over shard groups.
/// Parts of zero bytes included.
std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job);

}  // namespace zeropp::zero
