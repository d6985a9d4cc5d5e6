// Memory of error feedback's errors, in closed form.
#pragma once

#include <vector>

#include "lib/comm/shape.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/state_memory.hpp"

namespace zeropp::zero {

/// Names of the parts in traces: the first and the second hop among the ranks that share a copy,
/// and both halves of the sum over shard groups.
inline constexpr const char* kErrorsIntra = "error_feedback_intra";
inline constexpr const char* kErrorsInter = "error_feedback_inter";
inline constexpr const char* kErrorsAcross = "error_feedback_across";

/// Memory of both copies of the errors of all buckets, in those three parts. Parts of zero bytes
/// are included.
std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job);

}  // namespace zeropp::zero
