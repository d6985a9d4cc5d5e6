#include "lib/plan/memory_remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/config/optimizer_options.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::plan {

namespace {

using comm::Topology;
using config::TrainConfig;

std::string flags_if(bool changed, const char* flags) { return changed ? flags : ""; }

std::string no_images(TrainConfig& c, const Topology& /*topology*/) {
  return flags_if(std::exchange(c.zero.keep_weight_images, false), "--no-keep-weight-images");
}

/// Scores of cuDNN's attention are kept for the same bits in every run; the host has none.
std::string not_deterministic(TrainConfig& c, const Topology& /*topology*/) {
  return flags_if(c.backend != Backend::host && std::exchange(c.zero.deterministic, false),
                  "--no-deterministic");
}

std::string small_buckets(TrainConfig& c, const Topology& /*topology*/) {
  const std::size_t square = c.model.hidden_size * c.model.hidden_size;
  if (c.zero.reduce_bucket_size <= square) return "";
  c.zero.reduce_bucket_size = square;
  return fmt::format("--reduce-bucket-size {}", square);
}

template <int kStage>
std::string stage(TrainConfig& c, const Topology& topology) {
  if (c.zero.stage >= kStage || topology.world_size == 1) return "";
  c.zero.stage = kStage;
  return fmt::format("--zero-stage {}", kStage);
}

std::string update_in_backward(TrainConfig& c, const Topology& /*topology*/) {
  return flags_if(!std::exchange(c.zero.update_in_backward, true), "--update-in-backward");
}

std::string copies_to_host(TrainConfig& c, const Topology& /*topology*/) {
  return flags_if(std::exchange(c.zero.hpz_device, zero::HpzDevice::cpu) == zero::HpzDevice::device,
                  "--hpz-device cpu");
}

std::string recompute(TrainConfig& c, const Topology& /*topology*/) {
  if (!model::is_transformer(c.model) || c.model.recompute_activations) return "";
  c.model.recompute_activations = true;
  c.model.recompute_interval = 1;
  return "--recompute-activations";
}

std::string one_sequence(TrainConfig& c, const Topology& /*topology*/) {
  const std::size_t sequences = c.train_micro_batch_size_per_gpu * c.gradient_accumulation_steps;
  if (c.train_micro_batch_size_per_gpu == 1 || sequences > config::kMostAccumulationSteps) {
    return "";
  }
  c.train_micro_batch_size_per_gpu = 1;
  c.gradient_accumulation_steps = c.zero.accumulation_steps = sequences;
  return fmt::format("--micro-batch-size 1 --gradient-accumulation-steps {}", sequences);
}

std::string inputs_to_host(TrainConfig& c, const Topology& /*topology*/) {
  return flags_if(!std::exchange(c.model.cpu_checkpointing, true), "--cpu-checkpointing");
}

std::string short_moments(TrainConfig& c, const Topology& /*topology*/) {
  if (c.optimizer.moments != optim::Moments::fp32) return "";
  c.optimizer.moments = optim::Moments::bf16;
  c.zero.shard_multiple = optim::moment_alignment(c.optimizer.moments);
  return "--moments bf16";
}

std::string offload_optimizer(TrainConfig& c, const Topology& /*topology*/) {
  zero::OffloadOptimizerOptions& offload = c.zero.offload_optimizer;
  const double ratio = std::exchange(offload.ratio, 1.0);
  if (offload.enabled()) return flags_if(ratio < 1, "--offload-optimizer-ratio 1");
  offload.device = zero::OffloadDevice::cpu;
  return "--offload-optimizer cpu";
}

std::string offload_weights(TrainConfig& c, const Topology& /*topology*/) {
  if (c.zero.stage < 3 || c.zero.offload_param.enabled() || c.zero.measure_errors > 0) return "";
  c.zero.offload_param.device = zero::OffloadDevice::cpu;
  return "--offload-param cpu";
}

bool refuses_update_in_backward(const TrainConfig& config) {
  try {
    config::check_update_in_backward(config);
    return false;
  } catch (const Error&) {
    return true;
  }
}

/// The run with `remedy`; nothing where that changes nothing, is refused, or cannot be planned.
std::optional<Remedied> with(const MemoryRemedy& remedy, const TrainConfig& before,
                             const Topology& topology, const config::Machine& machine,
                             std::size_t source_vocab_size) {
  TrainConfig config = before;
  Remedied made{apply(remedy, config, topology), 0};
  if (made.flags.empty()) return std::nullopt;
  if (config.model.cpu_checkpointing && model::offloaded_inputs(config.model) == 0) {
    return std::nullopt;
  }
  try {
    config::check_moments(config);
    // Above stage 2 differences need hpZ's copies, in several nodes.
    config::check_weight_differences(config, machine);
    if (config.zero.keep_weight_images && !zero::keeps_weight_images(config.zero)) {
      made.flags = "--no-keep-weight-images " + made.flags;
    }
    if (refuses_update_in_backward(config)) {
      if (!before.zero.update_in_backward) return std::nullopt;
      config.zero.update_in_backward = false;
      made.flags = "--no-update-in-backward " + made.flags;
    }
    made.bytes = device_bytes(PlannedRun(config, topology, source_vocab_size).memory());
    return made;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const std::vector<MemoryRemedy>& memory_remedies() {
  constexpr MemoryChange kBuckets{small_buckets, "zero_optimization.reduce_bucket_size"};
  constexpr MemoryChange kStage3{stage<3>, nullptr};
  constexpr MemoryChange kRecompute{recompute, nullptr};
  constexpr MemoryChange kSequence{one_sequence, nullptr};
  constexpr MemoryChange kInputs{inputs_to_host, "zeropp.model.cpu_checkpointing", true};
  constexpr MemoryChange kOptimizer{offload_optimizer, "zero_optimization.offload_optimizer.device",
                                    true};
  constexpr MemoryChange kWeights{offload_weights, "zero_optimization.offload_param.device", true};
  static const std::vector<MemoryRemedy> table{
      {{no_images, "zeropp.keep_weight_images"}},
      {{not_deterministic, "zeropp.deterministic", false, true}},
      {kBuckets},
      {{stage<1>, nullptr}},
      {{stage<2>, nullptr}},
      {kStage3},
      {{update_in_backward, "zeropp.update_in_backward"}},
      {{copies_to_host, "zeropp.hpz_device", true}},
      {kRecompute},
      {kSequence},
      {kInputs},
      {kRecompute, kInputs},
      {{short_moments, "zeropp.moments"}},
      {kOptimizer},
      {kOptimizer, kWeights},
      {kSequence, kRecompute, kBuckets},
      {kStage3, kSequence, kRecompute, kBuckets},
      {kStage3, kOptimizer, kSequence, kRecompute, kBuckets},
      {kStage3, kOptimizer, kWeights, kSequence, kRecompute, kBuckets}};
  return table;
}

std::string apply(const MemoryRemedy& remedy, TrainConfig& config, const Topology& topology) {
  std::string flags;
  for (const MemoryChange& change : remedy) {
    const std::string own = change.apply(config, topology);
    if (!own.empty() && !flags.empty()) flags += ' ';
    flags += own;
  }
  return flags;
}

std::vector<Remedied> remedies_within(std::size_t capacity, bool to_host, std::size_t most,
                                      const TrainConfig& config, const Topology& topology,
                                      const config::Machine& machine,
                                      std::size_t source_vocab_size) {
  std::vector<Remedied> found;
  for (const MemoryRemedy& remedy : memory_remedies()) {
    if (found.size() == most) break;
    if (std::ranges::any_of(remedy, &MemoryChange::chooses_anew)) continue;
    if (!to_host && std::ranges::any_of(remedy, &MemoryChange::to_host)) continue;
    const auto made = with(remedy, config, topology, machine, source_vocab_size);
    if (!made || made->bytes > capacity) continue;
    // Where a run has some of the changes, the others are a remedy that came before.
    const bool known = std::ranges::find(found, made->flags, &Remedied::flags) != found.end();
    if (!known) found.push_back(*made);
  }
  return found;
}

}  // namespace zeropp::plan
