#include "lib/zero/plan/feedback_memory.hpp"

#include "lib/collective/description.hpp"
#include "lib/zero/plan/collective_plans.hpp"

namespace zeropp::zero {

std::vector<MemoryPart> feedback_memory(const Options& options, const std::vector<Bucket>& buckets,
                                        const comm::JobShape& job) {
  std::vector<MemoryPart> memory{
      {"error_feedback_intra", 0}, {"error_feedback_inter", 0}, {"error_feedback_across", 0}};
  const auto feedback = feedback_of(options);
  if (!feedback) return memory;
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
      memory[0].bytes += of(static_cast<std::size_t>(topology.world_size), bucket.count());
    }
    if (second && feedback->inter) {
      memory[1].bytes += of(static_cast<std::size_t>(topology.node_count), bucket.count());
    }
    if (job.shard_groups() == 1 || !feedback->inter) continue;
    const std::size_t part = replica_part(bucket, job.shard_groups(), options.compute);
    memory[2].bytes += of(job.shard_groups(), part) + of(1, part);
  }
  return memory;
}

}  // namespace zeropp::zero
