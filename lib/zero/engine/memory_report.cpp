#include "lib/zero/engine/memory_report.hpp"

#include <cstddef>
#include <utility>

#include "lib/zero/plan/state_memory.hpp"
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
                                        const CodecController& codecs, const StepGuard* guard) {
  const Options& options = context.options;
  const OptimizerShard& on_device = optimizer.on_device();
  const OffloadedOptimizer* const offloaded = optimizer.offloaded();
  const FileWeights* const in_files = optimizer.file_weights();
  const std::size_t weights = total_bytes(memory.compute_shards);
  const bool weights_there = options.offload_param.enabled();
  const std::size_t copies = memory.secondary ? memory.secondary->bytes() : 0;
  const bool copies_there = copies_on_host(context.units());
  HeldMemory held{
      {"master", on_device.master_bytes()},
      {"moments", on_device.state_bytes()},
      {"gradient_shard", total_bytes(memory.gradient_shards)},
      {"compute_shard", weights_there ? 0 : weights},
      {"resident_weights", total_bytes(memory.resident_weights)},
      {"local_gradients", total_bytes(memory.local_gradients)},
      {"secondary", copies_there ? 0 : copies},
      {"offloaded_secondary", copies_there ? copies : 0},
      {"offloaded_master", offloaded != nullptr ? offloaded->shard().master_bytes() : 0},
      {"offloaded_moments", offloaded != nullptr ? offloaded->shard().state_bytes() : 0},
      {"offloaded_staging", offloaded != nullptr ? offloaded->staging_bytes() : 0},
      {"offloaded_weights", weights_there ? weights : 0},
      {"offloaded_weight_buffers", in_files != nullptr ? in_files->bytes() : 0},
  };
  std::vector<MemoryReport> reports = compare_memory(
      state_memory(context.units(), context.preset, options.compute, on_device.kept(),
                   options.offload_optimizer, options.offload_param, context.plan.step.input.slabs),
      std::move(held));
  if (const WeightImages* const images = optimizer.images()) {
    reports.push_back({kWeightImages,
                       weight_image_memory(options, context.plan.codecs, context.units()),
                       images->bytes()});
  }
  const std::size_t tables =
      weight_image_table_memory(options, on_device.kept(), context.plan.codecs,
                                context.model.units(), context.units(), context.shard_rank());
  if (tables > 0) reports.push_back({kWeightImageTables, tables, on_device.image_table_bytes()});
  for (MemoryReport& each : context.collectives.gradients.errors().memory())
    reports.push_back(std::move(each));
  for (MemoryReport& each : codecs.memory()) reports.push_back(std::move(each));
  if (guard != nullptr) reports.push_back(guard->memory());
  reports.push_back({"arena", context.plan.step.arena_bytes(), memory.arena.bytes()});
  reports.push_back(context.model.memory());
  return reports;
}

}  // namespace zeropp::zero
