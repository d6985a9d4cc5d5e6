#include "lib/config/offload_options.hpp"

#include <utility>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

void add_offload(std::vector<Option>& table, TrainConfig& c) {
  zero::OffloadOptimizerOptions& optimizer = c.zero.offload_optimizer;
  zero::OffloadParamOptions& param = c.zero.offload_param;
  const auto offloaded = [&optimizer](Option option) {
    option.in_effect = [&optimizer] { return optimizer.enabled(); };
    option.effect_needs = "zero_optimization.offload_optimizer.device cpu";
    return option;
  };
  table.insert(
      table.end(),
      {{.path = "zero_optimization.offload_optimizer.device",
        .flag = "--offload-optimizer",
        .field = &optimizer.device,
        .help = "Where master weights and what the optimizer keeps lie, and its step is done: cpu "
                "is the host",
        .choices = {"none", "cpu", "nvme"}},
       offloaded({.path = "zero_optimization.offload_optimizer.pin_memory",
                  .flag = "--offload-optimizer-pin-memory",
                  .field = &optimizer.pin_memory,
                  .help = "What lies there is page-locked; what gradients and weights travel "
                          "through always is"}),
       offloaded({.path = "zero_optimization.offload_optimizer.buffer_count",
                  .flag = "--offload-optimizer-buffer-count",
                  .field = &optimizer.buffer_count,
                  .help = "Pieces that are on their way to the host and back at once; 1: nothing "
                          "overlaps",
                  .range = between(1, 1024)}),
       offloaded({.path = "zero_optimization.offload_optimizer.ratio",
                  .flag = "--offload-optimizer-ratio",
                  .field = &optimizer.ratio,
                  .help = "Share of the elements of each unit that lies there; the rest stays on "
                          "the device",
                  .range = between(0, 1)}),
       offloaded({.path = "zeropp.offload_piece_size",
                  .flag = "--offload-piece-size",
                  .field = &optimizer.piece_size,
                  .help = "Of a piece that goes to the host and back, at most",
                  .unit = "elements",
                  .range = at_least(1),
                  .binary_suffix = true}),
       {.path = "zero_optimization.offload_param.device",
        .flag = "--offload-param",
        .field = &param.device,
        .help =
            "Where the weights lie that are gathered at stage 3, each unit's until then: cpu is "
            "the host; with the optimizer there",
        .choices = {"none", "cpu", "nvme"}},
       {.path = "zero_optimization.offload_param.pin_memory",
        .flag = "--offload-param-pin-memory",
        .field = &param.pin_memory,
        .help = "They are page-locked; those of fp32 are the optimizer's own",
        .in_effect = [&param] { return param.enabled(); },
        .effect_needs = "zero_optimization.offload_param.device cpu"}});
}

void check_offload(const TrainConfig& config) {
  const zero::Options& zero = config.zero;
  for (const auto& [section, device] :
       {std::pair("offload_optimizer", zero.offload_optimizer.device),
        std::pair("offload_param", zero.offload_param.device)}) {
    if (device == "nvme") {
      refuse(
          "zero_optimization.{}.device nvme is refused: offload to NVMe is not built; set it to "
          "cpu "
          "or none",
          section);
    }
  }
  if (!zero.offload_param.enabled()) return;
  const char* const key = "zero_optimization.offload_param.device";
  if (zero.stage < 3) {
    refuse(
        "{} has no effect at zero_optimization.stage {}, where every rank holds all weights: set "
        "the stage to 3, or leave it out",
        key, zero.stage);
  }
  if (!zero.offload_optimizer.enabled() || zero.offload_optimizer.ratio < 1) {
    refuse(
        "{} needs all of the optimizer on the host, where the weights follow its master: set "
        "zero_optimization.offload_optimizer.device to cpu with a ratio of 1, or leave it out",
        key);
  }
  if (zero.measure_errors > 0) {
    refuse(
        "{} leaves no weights on the device that zeropp.measure_quantization_error could read: "
        "leave one of them out",
        key);
  }
  if (zero.adaptive_bits.values == "weights") {
    refuse(
        "{} leaves no weights on the device that zeropp.adaptive_bits could read: leave one of "
        "them out, or adapt those of gradients",
        key);
  }
}

}  // namespace zeropp::config
