// Public reports of what fails in DeepSpeed where parts of ZeRO++ are on, each with the versions
// and the threads. They are about DeepSpeed alone: nothing of it happens in zeropp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/enum_names.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// The part of DeepSpeed that runs a configuration: every release, the releases from one on, its
/// main branch alone, models that are built under MiCS_Init, or none that is known.
enum class RunsIn : std::uint8_t { any, release, main, mics_init, none };
constexpr auto enum_names(RunsIn) {
  return name_table("any", "release", "main", "MiCS_Init", "none");
}
struct DeepSpeedNeed {
  RunsIn in = RunsIn::any;
  std::string release = {};  ///< the first, "0.18.3"

  /// Whether a release runs it, in every program that calls DeepSpeed.
  [[nodiscard]] bool is_released() const { return in <= RunsIn::release; }
  [[nodiscard]] std::string text() const {
    return in == RunsIn::release ? release : std::string(enum_name(in));
  }
};

struct DeepSpeedReport {
  std::string setting = {};   ///< the configuration that has it: "hpZ with offload"
  std::string seen = {};      ///< a sentence: what was seen
  std::string versions = {};  ///< a sentence: versions that have it, and the one that mends it
  std::vector<std::string> threads = {};  ///< "DeepSpeed #3992", the one that says most first
  DeepSpeedNeed needs = {RunsIn::none};   ///< what runs the setting all the same
  /// Whether a resolved configuration on so many nodes is one of `setting`.
  bool (*concerns)(const TrainConfig& config, int nodes) = nullptr;
};

/// Reports in the order of docs/howto/deepspeed-versions.md.
const std::vector<DeepSpeedReport>& deepspeed_reports();

/// The part of DeepSpeed that runs a resolved configuration on so many nodes without one of the
/// reports.
DeepSpeedNeed deepspeed_needed(const TrainConfig& config, int nodes);

}  // namespace zeropp::config
