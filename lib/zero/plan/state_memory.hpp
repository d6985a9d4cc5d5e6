// Memory that an engine's state takes on a rank, in closed form over the partition, and the join of
// what is held with it. Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/dtype.hpp"
#include "kernels/optim/moments.hpp"
#include "lib/comm/shape.hpp"
#include "lib/zero/plan/gradient_slabs.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Bytes of one kind of memory, with its name in traces.
struct MemoryPart {
  std::string name;
  std::size_t bytes;
};

/// Memory of the engine's state in closed form, in the order: master, moments, gradient shard,
/// compute shard, resident weights, local gradients, secondary; then what lies in the memory of the
/// host: the secondary shards that do, with offload master, moments, staging, and with offloaded
/// parameters the weights and the buffers that weights in files are read to. Parts of zero bytes
/// are included.
/// `kept`: what the optimizer keeps for a parameter; shards are what its blocks need. `slabs`:
/// enabled, the gradient shards of all units lie there.
std::vector<MemoryPart> state_memory(const std::vector<UnitPartition>& units,
                                     const StagePreset& preset, Dtype compute,
                                     const optim::Kept& kept,
                                     const OffloadOptimizerOptions& offload = {},
                                     const OffloadParamOptions& offload_param = {},
                                     const GradientSlabs& slabs = {});

/// Whether a part of that name lies in the memory of the host, whatever the back end.
bool is_offloaded(std::string_view part);

/// Bytes that are held, by the name of their part.
using HeldMemory = std::map<std::string, std::size_t, std::less<>>;

/// Reports of the `predicted` parts, in their order, each with what is `held` under its name. A
/// part of `held` that was not predicted has to have zero bytes. Throws std::logic_error where it
/// has more, and where a predicted part is missing in `held`.
std::vector<MemoryReport> compare_memory(const std::vector<MemoryPart>& predicted, HeldMemory held);

/// Names of the parts of error feedback in traces: the first and the second hop among the ranks
/// that share a copy, and both halves of the sum over shard groups.
inline constexpr const char* kErrorsIntra = "error_feedback_intra";
inline constexpr const char* kErrorsInter = "error_feedback_inter";
inline constexpr const char* kErrorsAcross = "error_feedback_across";

/// Memory of both copies of the errors that error feedback keeps of all buckets, in those three
/// parts. Parts of zero bytes are included.
std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job);

}  // namespace zeropp::zero
