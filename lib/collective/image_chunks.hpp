// Chunks of an all-gather's packed image of a part, in closed form: what image_chunks() of its
// runner has (collective.hpp), without a communicator.
#pragma once

#include <string_view>
#include <vector>

#include "lib/collective/chunks.hpp"
#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"

namespace zeropp::collective {

/// Ranges of the part, in elements, each of which has an image of its own.
std::vector<Chunk> image_chunks(const Traits& traits, const AllGatherPlan& plan);
/// Ranges for the all-gather of this name. Throws Error(usage) for an unknown algorithm.
std::vector<Chunk> image_chunks(std::string_view all_gather, const AllGatherPlan& plan);

}  // namespace zeropp::collective
