// Public reports of what fails in DeepSpeed where parts of ZeRO++ are on, each with the versions
// and the threads. They are about DeepSpeed alone: nothing of it happens in zeropp.
#pragma once

#include <string>
#include <vector>

#include "lib/config/train_config.hpp"

namespace zeropp::config {

struct DeepSpeedReport {
  std::string setting = {};   ///< the configuration that has it: "hpZ with offload"
  std::string seen = {};      ///< a sentence: what was seen
  std::string versions = {};  ///< a sentence: versions that have it, and the one that mends it
  std::vector<std::string> threads = {};  ///< "DeepSpeed #3992", the one that says most first
  bool mended = false;                    ///< a release of DeepSpeed mends it
  /// Whether a resolved configuration on so many nodes is one of `setting`.
  bool (*concerns)(const TrainConfig& config, int nodes) = nullptr;
};

/// Reports in the order of docs/howto/deepspeed-versions.md.
const std::vector<DeepSpeedReport>& deepspeed_reports();

}  // namespace zeropp::config
