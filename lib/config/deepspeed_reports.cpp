#include "lib/config/deepspeed_reports.hpp"

namespace zeropp::config {

namespace {

bool has_hpz(const TrainConfig& c) { return c.zero.hpz_partition_size > 1; }

bool is_offloaded(const TrainConfig& c) {
  return c.zero.offload_optimizer.enabled() || c.zero.offload_param.enabled();
}

bool is_power_of_2(int number) { return (number & (number - 1)) == 0; }

}  // namespace

const std::vector<DeepSpeedReport>& deepspeed_reports() {
  static const std::vector<DeepSpeedReport> table{
      {.setting = "qwZ in bf16",
       .seen = "Forward ends with an error: the gathered weights are fp16, the inputs are bf16",
       .versions = "Up to 0.19.5: leave zero_quantized_weights out. Its main branch mends it since "
                   "2026-08-19 (#8215)",
       .threads = {"DeepSpeed #3992", "DeepSpeed #4852", "DeepSpeed #7775", "DeepSpeed #8215"},
       .needs = {RunsIn::main},
       .concerns = [](const TrainConfig& c, int) { return c.bf16 && c.zero.quantized_weights; }},
      {.setting = "qwZ on a number of nodes that is no power of 2",
       .seen = "An assertion ends the run on 3 nodes of 8 GPUs: shards have to be multiples of 8 "
               "elements",
       .versions = "Reported in 2023-09; 0.19.5 has the assertion still",
       .threads = {"DeepSpeed #4386"},
       .concerns = [](const TrainConfig& c,
                      int nodes) { return c.zero.quantized_weights && !is_power_of_2(nodes); }},
      {.setting = "hpZ with offload",
       .seen = "The loss stays at its first value or is 0, and the norm of the gradients is 0",
       .versions = "Reported in 2025-01 and 2025-03; no release is known to mend it",
       .threads = {"DeepSpeed #6926", "DeepSpeed #6889", "ms-swift #3697"},
       .concerns = [](const TrainConfig& c, int) { return has_hpz(c) && is_offloaded(c); }},
      {.setting = "hpZ",
       .seen = "The loss of the first step, or of the first step of a restart, is too high: the "
               "secondary copy is older than the weights that were loaded",
       .versions = "0.13.2 to 0.18.2. 0.18.3 mends it (#7707); #7164 may have another cause",
       .threads = {"DeepSpeed #7606", "DeepSpeed #7164", "DeepSpeed #7707"},
       .needs = {RunsIn::release, "0.18.3"},
       .concerns = [](const TrainConfig& c, int) { return has_hpz(c); }},
      {.setting = "hpZ",
       .seen = "The loss becomes 0 after a few steps: the secondary copy is gathered before it is "
               "complete",
       .versions = "0.13.2 to 0.13.4. 0.13.5 mends it (#5216)",
       .threads = {"DeepSpeed #5059", "DeepSpeed #5216"},
       .needs = {RunsIn::release, "0.13.5"},
       .concerns = [](const TrainConfig& c, int) { return has_hpz(c); }},
      {.setting = "hpZ",
       .seen = "Training converges worse than without hpZ",
       .versions = "Up to 0.13.1. 0.13.2 mends it (#4906)",
       .threads = {"DeepSpeed #4851", "DeepSpeed #4906"},
       .needs = {RunsIn::release, "0.13.2"},
       .concerns = [](const TrainConfig& c, int) { return has_hpz(c); }},
      {.setting = "MiCS under Hugging Face or Lightning",
       .seen = "An assertion ends the run: the model has to be built under "
               "deepspeed.zero.MiCS_Init, which these programs do not use",
       .versions = "Reported in 2024-10 and 2025-03, and open",
       .threads = {"accelerate #3442", "Lightning #20378"},
       .needs = {RunsIn::mics_init},
       .concerns = [](const TrainConfig& c, int) {
         return c.zero.shard_group_size != zero::kAllRanks;
       }}};
  return table;
}

DeepSpeedNeed deepspeed_needed(const TrainConfig& config, int nodes) {
  DeepSpeedNeed needed;
  for (const DeepSpeedReport& report : deepspeed_reports()) {
    // The table has the latest release first.
    if (report.needs.in > needed.in && report.concerns(config, nodes)) needed = report.needs;
  }
  return needed;
}

}  // namespace zeropp::config
