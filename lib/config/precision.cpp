#include "lib/config/precision.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lib/base/error.hpp"

namespace zeropp::config {

void add_precision(std::vector<Option>& table, TrainConfig& c) {
  const auto dynamic = [&c](Option option) {
    option.effect_needs = "fp16.enabled with fp16.loss_scale 0";
    option.in_effect = [&c] { return c.fp16 && c.zero.loss_scale.fixed == 0; };
    return option;
  };
  table.insert(
      table.end(),
      {{.path = "bf16.enabled",
        .flag = "--bf16",
        .field = &c.bf16,
        .help = "Compute and gather in bf16 with fp32 master weights",
        .automatic = keep_default},
       {.path = "fp16.enabled",
        .flag = "--fp16",
        .field = &c.fp16,
        .help = "Compute and gather in fp16 with fp32 master weights and a scaled loss",
        .automatic = keep_default},
       {.path = "fp16.loss_scale",
        .flag = "--loss-scale",
        .field = &c.zero.loss_scale.fixed,
        .help = "Factor of the loss before backward; 0: dynamic, as large as gradients allow",
        .range = between(0, zero::kLargestLossScale),
        .in_effect = [&c] { return c.fp16; },
        .effect_needs = "fp16.enabled"},
       dynamic({.path = "fp16.initial_scale_power",
                .flag = "--initial-scale-power",
                .field = &c.zero.loss_scale.initial_power,
                .help = "Power of 2 at which the dynamic loss scale begins",
                .range = between(0, std::log2(zero::kLargestLossScale))}),
       dynamic({.path = "fp16.loss_scale_window",
                .flag = "--loss-scale-window",
                .field = &c.zero.loss_scale.window,
                .help = "Steps without overflow after which the loss scale doubles",
                .unit = "steps",
                .range = at_least(1)}),
       dynamic({.path = "fp16.hysteresis",
                .flag = "--hysteresis",
                .field = &c.zero.loss_scale.hysteresis,
                .help = "Steps with an overflow, each of them skipped, until the loss scale is "
                        "halved",
                .unit = "steps",
                .range = at_least(1)}),
       dynamic({.path = "fp16.consecutive_hysteresis",
                .flag = "--consecutive-hysteresis",
                .field = &c.zero.loss_scale.consecutive_hysteresis,
                .help = "Count overflows anew after every step without one, not only where the "
                        "loss scale doubles"}),
       dynamic({.path = "fp16.min_loss_scale",
                .flag = "--min-loss-scale",
                .field = &c.zero.loss_scale.minimum,
                .help = "Least loss scale; an overflow at it ends the run",
                .range = between(std::numeric_limits<float>::min(), zero::kLargestLossScale)})});
}

bool is_precision_open(const std::vector<Option>& options) {
  bool automatic = false;
  for (const Option& option : options) {
    if (option.path != "bf16.enabled" && option.path != "fp16.enabled") continue;
    if (value_of(option) == true) return false;
    automatic = automatic || option.is_automatic;
  }
  return automatic;
}

std::string open_precision_line(const std::vector<Option>& options) {
  if (!is_precision_open(options)) return {};
  return "bf16.enabled and fp16.enabled that are \"auto\" are taken as false: everything is "
         "computed in fp32; --bf16 or --fp16 turns one of them on";
}

void check_precision(const TrainConfig& c) {
  if (c.bf16 && c.fp16) {
    throw Error(ExitCode::usage,
                "fp16.enabled and bf16.enabled ask for two precisions: leave one of them out");
  }
  const zero::LossScaleOptions& scale = c.zero.loss_scale;
  constexpr double kSmallest = std::numeric_limits<float>::min();
  if (c.fp16 && scale.fixed != 0 && scale.fixed < kSmallest) {
    throw Error(
        ExitCode::usage,
        fmt::format("fp16.loss_scale {} is below {}, the smallest number of fp32 with all of "
                    "its bits: give a larger one, or 0 for a dynamic scale",
                    scale.fixed, kSmallest));
  }
  const double initial = std::ldexp(1.0, static_cast<int>(scale.initial_power));
  if (c.fp16 && scale.fixed == 0 && scale.minimum > initial) {
    throw Error(ExitCode::usage,
                fmt::format("fp16.min_loss_scale {} is above {}, 2 to the power of "
                            "fp16.initial_scale_power: give a smaller minimum or a larger power",
                            scale.minimum, initial));
  }
}

}  // namespace zeropp::config
