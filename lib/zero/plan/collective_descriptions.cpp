#include "lib/zero/plan/collective_descriptions.hpp"

#include <algorithm>
#include <utility>

#include "lib/zero/plan/collective_plans.hpp"

namespace zeropp::zero {

namespace {

/// Makes a description that of `times` runs that are in flight together.
void repeat(collective::Description& description, std::size_t times) {
  const auto scale = [&](comm::Bytes& sent) {
    sent.intra *= times;
    sent.inter *= times;
  };
  scale(description.bytes);
  scale(description.messages);
  description.workspace *= times;
  description.runs = times;
}

}  // namespace

WeightDescriptions::WeightDescriptions(const Options& options, const CodecTable& codecs,
                                       const std::vector<UnitPartition>& units,
                                       const comm::JobShape& job) {
  const comm::LevelShape& sharding = job.sharding();
  const collective::Ranks over_shards{sharding, sharding.world};
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Phase phase = gather_phases(options, units[u]).front();
    global.emplace_back();
    for (const codec::CodecSpec& codec : codecs.weights(u)) {
      global.back().push_back(
          collective::describe_all_gather(options.all_gather_algorithm, over_shards,
                                          weight_gather(options, units[u], codec, phase)));
    }
    secondary.emplace_back();
    difference.emplace_back();
    copy.emplace_back();
    if (options.refreshes_differences()) {
      difference.back() = collective::describe_all_gather(
          options.all_gather_algorithm, over_shards, difference_gather(options, units[u], phase));
      difference.back()->workspace += difference_bytes(options, units[u]);
    }
    if (units[u].secondary == 0) continue;
    secondary.back() =
        collective::describe_all_gather(options.secondary_gather_algorithm, {job, *job.secondary},
                                        secondary_gather(options, units[u], phase));
    repeat(*secondary.back(), units[u].secondary_pieces);
    secondary.back()->workspace += staged_part_bytes(options, units[u]);
    if (!options.exchanges_differences()) continue;
    const collective::Ranks rail{job, job.rail};
    difference.back() = collective::describe_all_gather(
        kExchange, rail, difference_gather(options, units[u], phase));
    difference.back()->workspace +=
        staged_copy_bytes(units[u]) + difference_bytes(options, units[u]);
    for (const codec::CodecSpec& codec : codecs.weights(u)) {
      copy.back().push_back(collective::describe_all_gather(
          kExchange, rail, copy_gather(options, units[u], codec, phase)));
      copy.back().back().workspace += staged_copy_bytes(units[u]);
    }
  }
}

const collective::Description* WeightDescriptions::find(OpKind kind, std::size_t unit,
                                                        const CodecChoice& choice) const {
  switch (kind) {
    case OpKind::gather:
      return &global[unit][choice.weights[unit]];
    case OpKind::refresh:
      return &refresh(unit, choice);
    case OpKind::gather_secondary:
      return secondary[unit] ? &*secondary[unit] : nullptr;
    case OpKind::exchange:
      return copy[unit].empty() ? nullptr : &exchange(unit, choice);
    default:
      return nullptr;
  }
}

void WeightDescriptions::add_volumes(const CodecChoice& choice, Volumes& volumes) const {
  volumes.add(global.size(), &collective::Description::bytes,
              [&](OpKind kind, std::size_t unit) { return find(kind, unit, choice); });
}

void WeightDescriptions::add_messages(const CodecChoice& choice, Volumes& messages) const {
  messages.add(global.size(), &collective::Description::messages,
               [&](OpKind kind, std::size_t unit) { return find(kind, unit, choice); });
}

void WeightDescriptions::add_memory(std::vector<UnitMemory>& memory) const {
  const auto most = [](const std::vector<collective::Description>& gathers) {
    std::size_t workspace = 0;
    for (const collective::Description& gather : gathers)
      workspace = std::max(workspace, gather.workspace);
    return workspace;
  };
  for (std::size_t u = 0; u < global.size(); ++u) {
    memory[u].gather_workspace = most(global[u]);
    memory[u].refresh_workspace = memory[u].gather_workspace;
    memory[u].secondary_workspace = secondary[u] ? secondary[u]->workspace : 0;
    memory[u].exchange_workspace = most(copy[u]);
    if (!difference[u]) continue;
    std::size_t& taken =
        copy[u].empty() ? memory[u].refresh_workspace : memory[u].exchange_workspace;
    taken = std::max(taken, difference[u]->workspace);
  }
}

GradientDescriptions::GradientDescriptions(const Options& options, const CodecTable& codecs,
                                           const std::vector<UnitPartition>& units,
                                           std::vector<Bucket> of, const comm::JobShape& job)
    : buckets(std::move(of)) {
  const comm::LevelShape& sharding = job.sharding();
  const collective::Ranks over_shards{sharding, sharding.world};
  for (const Bucket& bucket : buckets) {
    const std::size_t packing = packing_bytes(units, bucket, sharding.world.size);
    BucketMemory& taken = memory.emplace_back();
    taken.sum = bucket.count() * sizeof(float);
    reduce.emplace_back();
    if (job.replicas) over_replicas.emplace_back();
    for (const GradientCodecs& hops : codecs.gradients(bucket.segments.front().unit)) {
      reduce.back().push_back(
          collective::describe_reduce_scatter(options.reduce_scatter_algorithm, over_shards,
                                              gradient_reduction(options, units, bucket, hops)));
      taken.workspace = std::max(taken.workspace, packing + reduce.back().back().workspace);
      if (!job.replicas) continue;
      const ReplicaSum sum = replica_sum(options, bucket, hops, job.replicas->size);
      const collective::Ranks replicas{job, *job.replicas};
      const ReplicaPair& pair = over_replicas.back().emplace_back(
          collective::describe_reduce_scatter(kReplicaReduce, replicas, sum.reduce),
          collective::describe_all_gather(kReplicaGather, replicas, sum.gather));
      const std::size_t part = sum.reduce.parts.count;
      taken.replica_image =
          replica_packing_bytes(bucket, job.replicas->size, part) + part * sizeof(float);
      taken.replica_reduce_workspace =
          std::max(taken.replica_reduce_workspace, pair.reduce.workspace);
      taken.replica_gather_workspace =
          std::max(taken.replica_gather_workspace, pair.gather.workspace);
    }
    if (stage_preset(options.stage).shard_optimizer) continue;
    gather_sum.push_back(collective::describe_all_gather(options.all_gather_algorithm, over_shards,
                                                         sum_gather(options, units, bucket)));
    taken.gather_sum_workspace = packing + gather_sum.back().workspace;
  }
}

const collective::Description* GradientDescriptions::find(
    OpKind kind, std::size_t bucket, const std::vector<std::size_t>& choice) const {
  switch (kind) {
    case OpKind::reduce:
      return &reduce[bucket][chosen(choice, bucket)];
    case OpKind::gather_sum:
      return gather_sum.empty() ? nullptr : &gather_sum[bucket];
    case OpKind::reduce_over_replicas:
      return over_replicas.empty() ? nullptr
                                   : &over_replicas[bucket][chosen(choice, bucket)].reduce;
    case OpKind::gather_over_replicas:
      return over_replicas.empty() ? nullptr
                                   : &over_replicas[bucket][chosen(choice, bucket)].gather;
    default:
      return nullptr;
  }
}

void GradientDescriptions::add_volumes(const std::vector<std::size_t>& choice,
                                       Volumes& volumes) const {
  volumes.add(reduce.size(), &collective::Description::bytes,
              [&](OpKind kind, std::size_t bucket) { return find(kind, bucket, choice); });
}

void GradientDescriptions::add_messages(const std::vector<std::size_t>& choice,
                                        Volumes& messages) const {
  messages.add(reduce.size(), &collective::Description::messages,
               [&](OpKind kind, std::size_t bucket) { return find(kind, bucket, choice); });
}

}  // namespace zeropp::zero
