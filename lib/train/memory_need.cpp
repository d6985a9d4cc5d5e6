#include "lib/train/memory_need.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "lib/app/registries.hpp"
#include "lib/config/optimizer_options.hpp"
#include "lib/config/resolve.hpp"
#include "lib/device/runtime.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::train {

namespace {

using config::TrainConfig;
using Parts = std::vector<zero::MemoryPart>;

/// Parts on the device, or those left to the host, in the order of the trace.
Parts parts_of(const TrainConfig& config, comm::Topology topology, std::size_t vocab_size,
               bool offloaded = false) {
  // A plan is of nodes that are alike; others count as one node.
  if (!topology.uniform()) topology = {topology.world_size, 1, topology.world_size};
  Parts parts = plan::PlannedRun(config, topology, vocab_size).memory();
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

/// Changes that a run may make to need less. Each returns whether it is something new, and
/// possible.
bool stage_up_to(TrainConfig& c, const comm::Topology& topology, int stage) {
  if (c.zero.stage >= stage || topology.world_size == 1) return false;
  c.zero.stage = stage;
  return true;
}

bool small_buckets(TrainConfig& c) {
  const std::size_t square = c.model.hidden_size * c.model.hidden_size;
  if (c.zero.reduce_bucket_size <= square) return false;
  c.zero.reduce_bucket_size = square;
  return true;
}

bool recompute(TrainConfig& c) {
  if (!model::is_transformer(c.model) || c.model.recompute_activations) return false;
  c.model.recompute_activations = true;
  c.model.recompute_interval = 1;
  return true;
}

bool inputs_to_host(TrainConfig& c) {
  if (c.model.cpu_checkpointing) return false;
  c.model.cpu_checkpointing = true;
  return model::offloaded_inputs(c.model) > 0;
}

bool one_sequence(TrainConfig& c) {
  const std::size_t sequences = c.train_micro_batch_size_per_gpu * c.gradient_accumulation_steps;
  if (c.train_micro_batch_size_per_gpu == 1 || sequences > config::kMostAccumulationSteps) {
    return false;
  }
  c.train_micro_batch_size_per_gpu = 1;
  c.gradient_accumulation_steps = c.zero.accumulation_steps = sequences;
  return true;
}

bool smallest(TrainConfig& c) {
  const bool buckets = small_buckets(c);
  const bool sequences = one_sequence(c);
  return recompute(c) || sequences || buckets;
}

bool offload_optimizer(TrainConfig& c) {
  zero::OffloadOptimizerOptions& offload = c.zero.offload_optimizer;
  if (offload.enabled() && offload.ratio == 1) return false;
  if (!offload.enabled()) offload.device = zero::OffloadDevice::cpu;
  offload.ratio = 1;
  return true;
}

bool offload_weights(TrainConfig& c) {
  if (c.zero.stage < 3 || c.zero.offload_param.enabled() || c.zero.measure_errors > 0) return false;
  offload_optimizer(c);
  c.zero.offload_param.device = zero::OffloadDevice::cpu;
  return true;
}

bool copies_to_host(TrainConfig& c) {
  if (!c.zero.has_secondary() || c.zero.hpz_device == zero::HpzDevice::cpu) return false;
  c.zero.hpz_device = zero::HpzDevice::cpu;
  return true;
}

bool update_in_backward(TrainConfig& c) {
  if (c.zero.update_in_backward) return false;
  c.zero.update_in_backward = true;
  config::check_update_in_backward(c);
  return true;
}

bool short_moments(TrainConfig& c) {
  if (c.optimizer.moments != optim::Moments::fp32) return false;
  c.optimizer.moments = optim::Moments::bf16;
  c.zero.shard_multiple = optim::moment_alignment(c.optimizer.moments);
  return true;
}

bool without_images(TrainConfig& c) {
  if (!zero::keeps_weight_images(c.zero)) return false;
  c.zero.keep_weight_images = false;
  return true;
}

struct Remedy {
  const char* flags;  ///< {}: what offloads all of the optimizer, see offloading()
  bool to_host;       ///< part of what it saves lies in the memory of the host then
  bool (*apply)(TrainConfig&, const comm::Topology&);
};

using Topology = comm::Topology;

/// Remedies that change a run the least come first.
constexpr std::array kRemedies{
    Remedy{"--no-keep-weight-images", false,
           [](TrainConfig& c, const Topology&) { return without_images(c); }},
    Remedy{"reduce_bucket_size auto", false,
           [](TrainConfig& c, const Topology&) { return small_buckets(c); }},
    Remedy{"--zero-stage 1", false,
           [](TrainConfig& c, const Topology& t) { return stage_up_to(c, t, 1); }},
    Remedy{"--zero-stage 2", false,
           [](TrainConfig& c, const Topology& t) { return stage_up_to(c, t, 2); }},
    Remedy{"--zero-stage 3", false,
           [](TrainConfig& c, const Topology& t) { return stage_up_to(c, t, 3); }},
    Remedy{"--update-in-backward", false,
           [](TrainConfig& c, const Topology&) { return update_in_backward(c); }},
    Remedy{"--hpz-device cpu", true,
           [](TrainConfig& c, const Topology&) { return copies_to_host(c); }},
    Remedy{"--recompute-activations", false,
           [](TrainConfig& c, const Topology&) { return recompute(c); }},
    Remedy{"--micro-batch-size 1 and more --gradient-accumulation-steps", false,
           [](TrainConfig& c, const Topology&) { return one_sequence(c); }},
    Remedy{"--cpu-checkpointing", true,
           [](TrainConfig& c, const Topology&) { return inputs_to_host(c); }},
    Remedy{"--recompute-activations --cpu-checkpointing", true,
           [](TrainConfig& c, const Topology&) { return recompute(c) && inputs_to_host(c); }},
    Remedy{"--moments bf16", false,
           [](TrainConfig& c, const Topology&) { return short_moments(c); }},
    Remedy{"{}", true, [](TrainConfig& c, const Topology&) { return offload_optimizer(c); }},
    Remedy{"{} --offload-param cpu", true,
           [](TrainConfig& c, const Topology&) { return offload_weights(c); }},
    Remedy{"--micro-batch-size 1 --recompute-activations, reduce_bucket_size auto", false,
           [](TrainConfig& c, const Topology&) { return smallest(c); }},
    Remedy{"--zero-stage 3 --micro-batch-size 1 --recompute-activations, reduce_bucket_size auto",
           false,
           [](TrainConfig& c, const Topology& t) { return stage_up_to(c, t, 3) && smallest(c); }},
    Remedy{
        "--zero-stage 3 {} --micro-batch-size 1 --recompute-activations, reduce_bucket_size auto",
        true,
        [](TrainConfig& c, const Topology&) {
          c.zero.stage = 3;
          smallest(c);
          return offload_optimizer(c);
        }},
    Remedy{"--zero-stage 3 {} --offload-param cpu --micro-batch-size 1 --recompute-activations, "
           "reduce_bucket_size auto",
           true, [](TrainConfig& c, const Topology&) {
             c.zero.stage = 3;
             smallest(c);
             return offload_weights(c);
           }}};

/// A run after a remedy.
struct Changed {
  std::size_t bytes;  ///< on the device
  bool updates_late;  ///< it had to leave --update-in-backward out
  bool drops_images;  ///< it had to leave --keep-weight-images out
};

bool refuses_update_in_backward(const TrainConfig& config) {
  try {
    config::check_update_in_backward(config);
    return false;
  } catch (const Error&) {
    return true;
  }
}

/// Configuration after `remedy`, with its memory; none where the remedy changes nothing, is
/// refused, or cannot be planned.
std::optional<Changed> after(const Remedy& remedy, TrainConfig config, const Topology& topology,
                             std::size_t vocab_size) {
  try {
    if (!remedy.apply(config, topology)) return std::nullopt;
    config::check_moments(config);
    // Above stage 2 differences need hpZ's copies, in several nodes.
    config::check_weight_differences(config, app::machine_of(topology));
    const bool late = refuses_update_in_backward(config);
    if (late) config.zero.update_in_backward = false;
    const bool idle = config.zero.keep_weight_images && !zero::keeps_weight_images(config.zero);
    return Changed{total(parts_of(config, topology, vocab_size)), late, idle};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Flags that offload the whole optimizer, where `config` does not yet; empty where it does.
const char* offloading(const TrainConfig& config) {
  const zero::OffloadOptimizerOptions& offload = config.zero.offload_optimizer;
  if (!offload.enabled()) return "--offload-optimizer cpu";
  return offload.ratio < 1 ? "--offload-optimizer-ratio 1" : "";
}

/// Flags of a remedy, with single blanks.
std::string flags_of(const Remedy& remedy, const TrainConfig& config, const Changed& changed) {
  std::string flags = changed.updates_late ? "--no-update-in-backward " : "";
  if (changed.drops_images) flags += "--no-keep-weight-images ";
  flags += fmt::format(fmt::runtime(remedy.flags), offloading(config));
  const auto doubled = [](char a, char b) { return a == ' ' && b == ' '; };
  flags.erase(std::ranges::unique(flags, doubled).begin(), flags.end());
  return flags.substr(flags.find_first_not_of(' '));
}

double gb(std::size_t bytes) { return static_cast<double>(bytes) * 1e-9; }

}  // namespace

std::string MemoryNeed::remedies(std::size_t capacity, bool of_host) const {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> named;
  for (const Remedy& remedy : kRemedies) {
    if (named.size() == kNamed) break;
    if (remedy.to_host && of_host) continue;
    const auto changed = after(remedy, config_, topology_, vocab_size_);
    if (!changed || changed->bytes > capacity) continue;
    named.push_back(
        fmt::format("{} ({:.3g} GB)", flags_of(remedy, config_, *changed), gb(changed->bytes)));
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
  return fmt::format("{}; a rank needs {} bytes in all, {} for {} and {} for {}; {}", error.what(),
                     needed, parts[0].bytes, parts[0].name, parts[1].bytes, parts[1].name,
                     remedies(capacity, !on_gpu));
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
