#include "lib/zero/plan/feedback_memory.hpp"

#include "lib/collective/description.hpp"
#include "lib/zero/plan/collective_plans.hpp"

namespace zeropp::zero {

std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job) {
  std::size_t intra = 0;
  std::size_t inter = 0;
  std::size_t across = 0;
  const auto memory = [&] {
    return std::vector<MemoryPart>{
        {kErrorsIntra, intra}, {kErrorsInter, inter}, {kErrorsAcross, across}};
  };
  const auto feedback = feedback_of(options);
  if (!feedback) return memory();
  const comm::Topology& topology = job.sharding().topology;
  // The first hop sends all parts, P elements; the second, where there is one, those of the own
  // rail, P / G. Nodes of one rank have the second only.
  const bool second =
      collective::reduce_scatter_traits(options.reduce_scatter_algorithm).hierarchical &&
      topology.node_count > 1;
  const bool first = !second || topology.ranks_per_node > 1;
  const auto of = [&](std::size_t parts, std::size_t count) {
    return collective::error_bytes(feedback->storage, parts, count);
  };
  for (const Bucket& bucket : buckets) {
    if (first && feedback->intra) {
      intra += of(static_cast<std::size_t>(topology.world_size), bucket.count());
    }
    if (second && feedback->inter) {
      inter += of(static_cast<std::size_t>(topology.node_count), bucket.count());
    }
    if (job.shard_groups() == 1 || !feedback->inter) continue;
    const std::size_t part = replica_part(bucket, job.shard_groups(), options.compute);
    across += of(job.shard_groups(), part) + of(1, part);
  }
  return memory();
}

}  // namespace zeropp::zero
