#include "lib/train/memory_need.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lib/app/registries.hpp"
#include "lib/device/runtime.hpp"
#include "lib/plan/memory_remedies.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::train {

namespace {

using config::TrainConfig;
using Parts = std::vector<zero::MemoryPart>;

/// A plan is of nodes that are alike; others count as one node.
comm::Topology planned_as(const comm::Topology& topology) {
  return topology.uniform() ? topology
                            : comm::Topology{topology.world_size, 1, topology.world_size};
}

/// Parts on the device, or those left to the host, in the order of the trace.
Parts parts_of(const TrainConfig& config, const comm::Topology& topology, std::size_t vocab_size,
               bool offloaded = false) {
  Parts parts = plan::PlannedRun(config, planned_as(topology), vocab_size).memory();
  std::erase_if(parts, [&](const zero::MemoryPart& part) {
    return part.bytes == 0 || zero::is_offloaded(part.name) != offloaded;
  });
  return parts;
}

std::size_t total(const Parts& parts) {
  std::size_t sum = 0;
  for (const zero::MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace

std::string MemoryNeed::remedies(std::size_t capacity, bool of_host) const {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> named;
  for (const auto& [flags, bytes] :
       plan::remedies_within(capacity, !of_host, kNamed, config_, planned_as(topology_),
                             app::machine_of(topology_), vocab_size_)) {
    named.push_back(fmt::format("{} ({:.3g} GB)", flags, static_cast<double>(bytes) * 1e-9));
  }
  if (named.empty()) {
    return "no stage, bucket, micro-batch, time of the updates, dtype of the moments, place of "
           "hpZ's copy, recomputing or offload that was tried makes it fit: use more ranks or a "
           "smaller model";
  }
  return fmt::format("{}: {}", of_host ? "would need less" : "would fit",
                     fmt::join(named, ", or "));
}

void MemoryNeed::enforce_limit() const {
  const std::size_t limit = config_.device_memory_limit;
  if (config_.backend == Backend::cuda) limit_gpu_memory(limit);
  if (limit == 0) return;
  const Parts parts = parts_of(config_, topology_, vocab_size_);
  std::size_t left = limit;
  for (const zero::MemoryPart& part : parts) {
    if (part.bytes <= left) {
      left -= part.bytes;
      continue;
    }
    throw Error(
        ExitCode::environment,
        fmt::format("no memory for {}: it needs {} bytes where {} of zeropp.device_memory_limit "
                    "{} are left, and a rank {} bytes in all; {}",
                    part.name, part.bytes, left, limit, total(parts), remedies(limit, false)));
  }
}

std::string MemoryNeed::explained(const OutOfMemory& error) const {
  if (config_.zero.adaptive_bits.values != zero::AdaptedValues::none) return error.what();
  const bool on_gpu = config_.backend == Backend::cuda;
  if (on_gpu && error.kind() != MemoryKind::device) return explained_beside_gpu(error);
  Parts parts = parts_of(config_, topology_, vocab_size_);
  const std::size_t needed = total(parts);
  std::size_t capacity = needed - 1;  // of the host nobody knows it; less may do
  if (on_gpu) {
    // The pool keeps what it once had: that is in use, for this process.
    const std::size_t free = visible_gpus().at(gpu_).memory - gpu_memory_used();
    const std::size_t limit = config_.device_memory_limit;
    capacity = free + cuda_runtime()->memory_use().peak;
    if (limit > 0) capacity = std::min(capacity, limit);
  }
  // A run has two parts on the device at least.
  std::ranges::sort(parts, std::ranges::greater{}, &zero::MemoryPart::bytes);
  const std::string sharing =
      topology_.virtual_ranks
          ? fmt::format(" (this process has {} virtual ranks)", topology_.world_size)
          : "";
  return fmt::format("{}; a rank needs {} bytes in all{}, {} for {} and {} for {}; {}",
                     error.what(), needed, sharing, parts[0].bytes, parts[0].name, parts[1].bytes,
                     parts[1].name, remedies(capacity, !on_gpu));
}

std::string MemoryNeed::explained_beside_gpu(const OutOfMemory& error) const {
  Parts parts = parts_of(config_, topology_, vocab_size_, true);
  if (parts.empty()) return error.what();
  std::ranges::sort(parts, std::ranges::greater{}, &zero::MemoryPart::bytes);
  std::string text = fmt::format(
      "{}; a rank leaves {} bytes to the memory of the host, {} of them "
      "for {}",
      error.what(), total(parts), parts[0].bytes, parts[0].name);
  const auto copy = std::ranges::find(parts, "offloaded_secondary", &zero::MemoryPart::name);
  if (copy == parts.end()) return text;
  return fmt::format("{}; --hpz-device device would keep hpZ's copy, {} bytes, on the GPU", text,
                     copy->bytes);
}

}  // namespace zeropp::train
