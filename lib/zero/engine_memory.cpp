#include "lib/zero/engine_memory.hpp"

#include <cstddef>

#include "lib/zero/offload_plan.hpp"
#include "lib/zero/schedule.hpp"

namespace zeropp::zero {

namespace {

std::vector<Buffer> of_fp32(const std::vector<UnitPartition>& units,
                            std::size_t UnitPartition::*count, MemoryKind kind) {
  std::vector<Buffer> made;
  made.reserve(units.size());
  for (const UnitPartition& unit : units)
    made.push_back(Buffer::zeros(unit.*count, Dtype::fp32, kind));
  return made;
}

/// Of shards that are gathered.
MemoryKind memory_of_weights(const Options& options, const Device& device) {
  if (!options.offload_param.enabled()) return device.memory;
  return options.offload_param.pin_memory ? device.staging() : MemoryKind::host;
}

}  // namespace

std::vector<Buffer> make_compute_shards(const Options& options,
                                        const std::vector<UnitPartition>& units,
                                        const Device& device) {
  const bool elsewhere =
      options.offload_optimizer.enabled() &&
      !gathers_master(options.compute, options.offload_optimizer, options.offload_param);
  std::vector<Buffer> made;
  if (!stage_preset(options.stage).shard_optimizer) return made;
  if (options.compute == Dtype::fp32 && !elsewhere) return made;
  const std::vector<bool> filed = weights_on_file(units, options.offload_param);
  const MemoryKind kind = memory_of_weights(options, device);
  for (std::size_t u = 0; u < units.size(); ++u)
    made.push_back(Buffer::zeros(filed[u] ? 0 : units[u].shard, options.compute, kind));
  return made;
}

std::vector<Buffer> make_resident_weights(const Options& options,
                                          const std::vector<UnitPartition>& units,
                                          const Device& device) {
  const StagePreset preset = stage_preset(options.stage);
  std::vector<Buffer> made;
  made.reserve(units.size());
  for (const UnitPartition& unit : units) {
    const bool resident = !preset.shard_parameters || unit.persistent;
    made.push_back(resident ? Buffer::zeros(unit.padded, options.compute, device.memory)
                            : Buffer());
  }
  return made;
}

std::vector<Buffer> make_local_gradients(const Options& options,
                                         const std::vector<UnitPartition>& units,
                                         const Device& device) {
  if (stage_preset(options.stage).shard_gradients) return {};
  return of_fp32(units, &UnitPartition::padded, device.memory);
}

std::vector<Buffer> make_gradient_shards(const Options& options,
                                         const std::vector<UnitPartition>& units,
                                         const Device& device) {
  if (!stage_preset(options.stage).shard_optimizer) return {};
  return of_fp32(units, &UnitPartition::shard, device.memory);
}

}  // namespace zeropp::zero
