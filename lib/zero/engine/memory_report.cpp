#include "lib/zero/engine/memory_report.hpp"

#include <cstddef>

#include "lib/zero/plan/volume.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {

namespace {

std::size_t total_bytes(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return total;
}

}  // namespace

std::vector<MemoryReport> memory_report(const EngineContext& context, const RankMemory& memory,
                                        const RankOptimizer& optimizer,
                                        const CodecController& codecs) {
  const Options& options = context.options;
  const OptimizerShard& on_device = optimizer.on_device();
  const bool weights_stay = options.offload_param.enabled();
  const std::size_t weights = total_bytes(memory.compute_shards);
  std::vector<std::size_t> actual{on_device.master_bytes(),
                                  on_device.state_bytes(),
                                  total_bytes(memory.gradient_shards),
                                  weights_stay ? 0 : weights,
                                  total_bytes(memory.resident_weights),
                                  total_bytes(memory.local_gradients)};
  const std::size_t copies = memory.secondary ? memory.secondary->bytes() : 0;
  const bool copies_there = copies_on_host(context.units());
  actual.push_back(copies_there ? 0 : copies);
  if (copies_there) actual.push_back(copies);
  if (const OffloadedOptimizer* const offloaded = optimizer.offloaded()) {
    actual.push_back(offloaded->shard().master_bytes());
    actual.push_back(offloaded->shard().state_bytes());
    actual.push_back(offloaded->staging_bytes());
  }
  if (weights_stay) actual.push_back(weights);
  if (options.offload_param.on_file())
    actual.push_back(optimizer.file_weights() != nullptr ? optimizer.file_weights()->bytes() : 0);
  std::vector<MemoryReport> reports;
  const auto predicted =
      state_memory(context.units(), context.preset, options.compute, on_device.kept(),
                   options.offload_optimizer, options.offload_param, context.plan.step.input.slabs);
  for (std::size_t i = 0; i < actual.size(); ++i)
    reports.push_back({predicted[i].name, predicted[i].bytes, actual[i]});
  if (const WeightImages* const images = optimizer.images()) {
    reports.push_back({kWeightImages,
                       weight_image_memory(options, context.plan.codecs, context.units()),
                       images->bytes()});
    const std::size_t tables =
        weight_image_table_memory(options, on_device.kept(), context.plan.codecs,
                                  context.model.units(), context.units(), context.shard_rank());
    if (context.device.backend == Backend::cuda && tables > 0)
      reports.push_back({kWeightImageTables, tables, on_device.image_table_bytes()});
  }
  for (MemoryReport& each : context.gradient_reduce.errors().memory())
    reports.push_back(std::move(each));
  for (MemoryReport& each : codecs.memory()) reports.push_back(std::move(each));
  reports.push_back({"arena", context.plan.step.arena_bytes(), memory.arena.bytes()});
  reports.push_back(context.model.memory());
  return reports;
}

}  // namespace zeropp::zero
