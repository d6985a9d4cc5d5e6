// Memory of error feedback's errors, in closed form.
#pragma once

#include <vector>

#include "lib/comm/shape.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

/// Memory of both copies of the errors of all buckets, in three parts, with the names of the trace:
/// one for each of the two hops among the ranks that share a copy, and one for both halves of the
/// sum over shard groups. Parts of zero bytes are included.
std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job);

}  // namespace zeropp::zero
