#include "lib/zero/plan/state_memory.hpp"

#include <stdexcept>

#include "lib/collective/description.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::zero {

bool is_offloaded(std::string_view part) { return part.starts_with("offloaded_"); }

std::vector<MemoryPart> state_memory(const std::vector<UnitPartition>& units,
                                     const StagePreset& preset, Dtype compute,
                                     const optim::Kept& kept,
                                     const OffloadOptimizerOptions& offload,
                                     const OffloadParamOptions& offload_param,
                                     const GradientSlabs& slabs) {
  std::size_t shards = 0;
  std::size_t padded = 0;
  std::size_t secondary = 0;
  std::size_t on_host = 0;
  std::vector<std::size_t> counts;
  std::size_t persistent = 0;
  for (const UnitPartition& unit : units) {
    shards += unit.shard;
    padded += unit.padded;
    secondary += unit.secondary * size_of(unit.secondary_dtype);
    counts.push_back(preset.shard_optimizer ? unit.shard : unit.padded);
    on_host += offloaded_elements(counts.back(), offload);
    persistent += unit.persistent ? unit.padded : 0;
  }
  const std::size_t owned = preset.shard_optimizer ? shards : padded;
  const std::size_t e = size_of(compute);
  const bool weights_stay = offload_param.enabled();
  const bool own_weights = !weights_stay && !gathers_master(compute, offload, offload_param);
  const bool copies_there = copies_on_host(units);
  std::vector<MemoryPart> parts{
      {"master", (owned - on_host) * 4},
      {"moments", kept.bytes(owned - on_host)},
      {"gradient_shard", slabs.enabled()          ? slabs.bytes()
                         : preset.shard_optimizer ? owned * 4
                                                  : 0},
      {"compute_shard", preset.shard_optimizer && own_weights ? owned * e : 0},
      {"resident_weights", (preset.shard_parameters ? persistent : padded) * e},
      {"local_gradients", preset.shard_gradients ? 0 : padded * 4},
      {"secondary", copies_there ? 0 : secondary},
  };
  if (copies_there) parts.push_back({"offloaded_secondary", secondary});
  if (!offload.enabled()) return parts;
  const std::vector<OffloadPiece> pieces = offload_pieces(counts, offload);
  const std::vector<bool> on_file = weights_on_file(units, offload_param);
  const std::size_t in_memory = offload.on_file() ? 0 : on_host;
  parts.push_back({"offloaded_master", in_memory * 4});
  parts.push_back({"offloaded_moments", kept.bytes(in_memory)});
  parts.push_back(
      {"offloaded_staging",
       offload_staging(pieces, compute, kept, on_file, offload, offload_param).bytes()});
  if (!weights_stay) return parts;
  std::size_t weights = 0;
  for (std::size_t u = 0; u < units.size(); ++u) weights += on_file[u] ? 0 : units[u].shard * e;
  parts.push_back(
      {"offloaded_weights", gathers_master(compute, offload, offload_param) ? 0 : weights});
  if (offload_param.on_file()) {
    const WeightBuffers buffers = weight_buffers(pieces, on_file, compute, offload_param);
    parts.push_back({"offloaded_weight_buffers", buffers.buffers * buffers.bytes});
  }
  return parts;
}

std::vector<MemoryReport> compare_memory(const std::vector<MemoryPart>& predicted,
                                         HeldMemory held) {
  std::vector<MemoryReport> reports;
  reports.reserve(predicted.size());
  for (const MemoryPart& part : predicted) {
    const auto found = held.extract(part.name);
    if (found.empty()) throw std::logic_error("memory: nobody says what is held of " + part.name);
    reports.push_back({part.name, part.bytes, found.mapped()});
  }
  for (const auto& [name, bytes] : held) {
    if (bytes > 0) throw std::logic_error("memory: " + name + " is held, and was not predicted");
  }
  return reports;
}

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
