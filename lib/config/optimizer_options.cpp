#include "lib/config/optimizer_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

/// The optimizer computes in fp32: beyond these a value would become infinity, or lose its bits.
constexpr double kLargestFloat = std::numeric_limits<float>::max();
constexpr double kSmallestFloat = std::numeric_limits<float>::min();

/// Whether the schedule ends its warm-up at a rate of its own, and not at the optimizer's.
bool rises_to_another_rate(const TrainConfig& c, const std::vector<Option>& all) {
  const optim::ScheduleOptions& schedule = c.optimizer.schedule;
  if (!optim::schedule_reads(schedule.type, "warmup_max_lr")) return false;
  const auto highest = std::ranges::find(all, "scheduler.params.warmup_max_lr", &Option::path);
  const bool follows =
      highest->is_automatic ||
      (!highest->given && !optim::schedule_reads(schedule.type, "total_num_steps"));
  return is_given(all, "optimizer.params.lr") && !follows &&
         c.optimizer.learning_rate != schedule.warmup_max_lr;
}

/// Line about a learning rate of the optimizer's that the schedule does not rise to.
std::string unused_rate(const TrainConfig& c, const std::vector<Option>& all) {
  const optim::ScheduleOptions& schedule = c.optimizer.schedule;
  const std::string source = is_given(all, "scheduler.params.warmup_max_lr")
                                 ? "the given scheduler.params.warmup_max_lr"
                                 : fmt::format(
                                       "the default of scheduler.params.warmup_max_lr with "
                                       "scheduler.type {}",
                                       schedule.type);
  return fmt::format(
      "optimizer.params.lr {0} is not used: the learning rate rises to {1}, {2}, as in DeepSpeed: "
      "to train at {0}, set scheduler.params.warmup_max_lr to {0} (--warmup-max-lr)",
      c.optimizer.learning_rate, schedule.warmup_max_lr, source);
}

void add_schedule(std::vector<Option>& table, TrainConfig& c) {
  optim::ScheduleOptions& schedule = c.optimizer.schedule;
  // A parameter is in effect where the schedule reads it.
  const auto parameter = [&schedule](std::string name, Option option) {
    option.path = "scheduler.params." + name;
    option.effect_needs = "scheduler.type " + optim::schedule_readers(name);
    option.refused_idle = true;
    option.in_effect = [&schedule, name = std::move(name)] {
      return optim::schedule_reads(schedule.type, name);
    };
    return option;
  };
  table.insert(
      table.end(),
      {{.path = "scheduler.type",
        .flag = "--scheduler",
        .field = &schedule.type,
        .help = "Schedule of the learning rate; a skipped step does not count",
        .choices = optim::schedule_types()},
       parameter("warmup_min_lr", {.flag = "--warmup-min-lr",
                                   .field = &schedule.warmup_min_lr,
                                   .help = "Learning rate at the begin of the warm-up",
                                   .range = between(0, kLargestFloat),
                                   .automatic = keep_default}),
       parameter(
           "warmup_max_lr",
           {.flag = "--warmup-max-lr",
            .field = &schedule.warmup_max_lr,
            .help = "Learning rate at the end of the warm-up; not given, or auto: "
                    "optimizer.params.lr, but of WarmupDecayLR, where it is not given, 0.001",
            .range = between(0, kLargestFloat),
            .automatic = [&c] { c.optimizer.schedule.warmup_max_lr = c.optimizer.learning_rate; }}),
       parameter("warmup_num_steps", {.flag = "--lr-warmup-iters",
                                      .field = &schedule.warmup_num_steps,
                                      .help = "Steps of the warm-up; auto: 2, the fewest",
                                      .unit = "steps",
                                      .range = at_least(1),
                                      .automatic = [&schedule] { schedule.warmup_num_steps = 2; }}),
       parameter("warmup_type",
                 {.flag = "--warmup-type",
                  .field = &schedule.warmup_type,
                  .help = "Rise of the rate, with the logarithm of the step or with the step",
                  .choices = {"log", "linear"}}),
       parameter("total_num_steps",
                 {.flag = "--lr-decay-iters",
                  .field = &schedule.total_num_steps,
                  .help = "Steps until the learning rate is at its end; has to be given; auto: "
                          "zeropp.train_steps",
                  .unit = "steps",
                  .range = at_least(1),
                  .automatic = [&c] { c.optimizer.schedule.total_num_steps = c.train_steps; }}),
       parameter("warmup_min_ratio", {.flag = "--warmup-min-ratio",
                                      .field = &schedule.warmup_min_ratio,
                                      .help = "Share of optimizer.params.lr that the warm-up "
                                              "begins with",
                                      .range = between(0, 1)}),
       parameter("cos_min_ratio", {.flag = "--cos-min-ratio",
                                   .field = &schedule.cos_min_ratio,
                                   .help = "Share of optimizer.params.lr that the cosine ends at",
                                   .range = between(0, 1)})});
}

}  // namespace

void add_optimizer(std::vector<Option>& table, TrainConfig& c) {
  const Range below_one{.minimum = 0, .maximum = 1, .maximum_excluded = true};
  // A parameter is in effect where the optimizer reads it.
  const auto parameter = [&c](std::string name, Option option) {
    option.effect_needs = "optimizer.type " + optim::readers(name);
    option.refused_idle = true;
    option.in_effect = [&c, name = std::move(name)] {
      return optim::reads(c.optimizer.type, name);
    };
    return option;
  };
  table.insert(
      table.end(),
      {{.path = "optimizer.type",
        .flag = "--optimizer",
        .field = &c.optimizer.type,
        .help = "Optimizer",
        .choices = optim::types(),
        .any_case = true},
       {.path = "optimizer.params.lr",
        .flag = "--lr",
        .field = &c.optimizer.learning_rate,
        .help = "Learning rate",
        .range = between(0, kLargestFloat),
        .ruled_out = [&c](const auto& all) { return rises_to_another_rate(c, all); },
        .why_ruled_out = [&c](const auto& all) { return unused_rate(c, all); },
        .automatic = keep_default},
       parameter("betas", {.path = "optimizer.params.betas.0",
                           .flag = "--adam-beta1",
                           .field = &c.optimizer.beta1,
                           .help = "Decay of the first moment; of Lion: share of it in the update",
                           .range = below_one,
                           .automatic = keep_default}),
       parameter("betas", {.path = "optimizer.params.betas.1",
                           .flag = "--adam-beta2",
                           .field = &c.optimizer.beta2,
                           .help = "Decay of the second moment; of Lion: of its one moment",
                           .range = below_one,
                           .automatic = keep_default}),
       parameter("eps", {.path = "optimizer.params.eps",
                         .flag = "--adam-eps",
                         .field = &c.optimizer.epsilon,
                         .help = "Number that is added to the root of the second moment",
                         .range = between(kSmallestFloat, kLargestFloat),
                         .automatic = keep_default}),
       parameter("weight_decay",
                 {.path = "optimizer.params.weight_decay",
                  .flag = "--weight-decay",
                  .field = &c.optimizer.weight_decay,
                  .help = "Weight decay: decoupled in AdamW and Lion, in Adam and SGD part of "
                          "the gradient; of which parameters, zeropp.decayed_parameters says",
                  .range = between(0, kLargestFloat),
                  .automatic = keep_default}),
       {.path = "zeropp.decayed_parameters",
        .flag = "--decayed-parameters",
        .field = &c.optimizer.decayed,
        .help =
            "Parameters that weight decay shrinks: matrices and embeddings, as is usual, or all, "
            "biases and norms too, as PyTorch and DeepSpeed do unless told otherwise; not given: "
            "all where a file gives the weight decay in use, else matrices",
        .choices = {"matrices", "all"},
        .in_effect =
            [&c] { return c.optimizer.weight_decay > 0 && model::is_transformer(c.model); },
        .effect_needs = "optimizer.params.weight_decay above 0 and a transformer as "
                        "zeropp.model.name"},
       {.path = "zeropp.moments",
        .flag = "--moments",
        .field = &c.optimizer.moments,
        .help =
            "How the optimizer keeps its moments, or its momentum, from step to step, which it "
            "computes in fp32: in 4, 2 or 1 bytes; bf16 rounds stochastically; int8 has a scale "
            "for 64 values, and shards of whole blocks of them",
        .in_effect = [&c] { return optim::keeps_moments(c.optimizer); },
        .effect_needs =
            "optimizer.type " + optim::readers("betas") + ", or optimizer.params.momentum above 0"},
       {.path = "optimizer.params.adam_w_mode",
        .flag = "--adam-w-mode",
        .field = &c.adam_w_mode,
        .help = "Let Adam decay weights as AdamW does; not given: where a file names Adam, as in "
                "DeepSpeed, but not where --optimizer does",
        .in_effect =
            [&c] {
              return c.optimizer.type == "Adam" || (c.optimizer.type == "AdamW" && c.adam_w_mode);
            },
        .effect_needs = "optimizer.type Adam"},
       parameter("momentum", {.path = "optimizer.params.momentum",
                              .flag = "--sgd-momentum",
                              .field = &c.optimizer.momentum,
                              .help = "Share of the previous steps' sum that stays in SGD's sum; "
                                      "0: none, and no memory for it",
                              .range = below_one}),
       {.path = "optimizer.params.nesterov",
        .flag = "--sgd-nesterov",
        .field = &c.optimizer.nesterov,
        .help = "Use Nesterov's momentum",
        .in_effect =
            [&c] { return optim::reads(c.optimizer.type, "nesterov") && c.optimizer.momentum > 0; },
        .effect_needs =
            "optimizer.params.momentum above 0 and optimizer.type " + optim::readers("nesterov")},
       {.path = "gradient_clipping",
        .flag = "--clip-grad",
        .other_flags = {"--max_grad_norm"},
        .field = &c.zero.gradient_clipping,
        .help = "Largest global norm of the mean gradient; 0 is off",
        .range = between(0, kLargestFloat),
        .automatic = keep_default},
       {.path = "zeropp.update_in_backward",
        .flag = "--update-in-backward",
        .field = &c.zero.update_in_backward,
        .help = "Update each unit as soon as its gradients are reduced, beside the backward of "
                "others, and keep them no longer, which saves memory where units are in more than "
                "three "
                "buckets; a gradient that is not finite ends the run",
        .in_effect = [&c] { return c.zero.stage >= 2; },
        .effect_needs = "zero_optimization.stage 2 or 3"}});
  add_schedule(table, c);
}

void check_moments(const TrainConfig& c) {
  const optim::Moments moments = c.optimizer.moments;
  const zero::OffloadOptimizerOptions& offload = c.zero.offload_optimizer;
  if (moments == optim::Moments::fp32 || !offload.enabled()) return;
  const auto refuse_size = [&](const char* key, std::size_t size) {
    const std::size_t block = optim::moment_alignment(moments);
    if (size % block == 0) return;
    refuse("zeropp.moments {} and {} {}, which is no multiple of the {} values of a scale: use {}",
           enum_name(moments), key, size, block, (size / block + 1) * block);
  };
  refuse_size("zeropp.offload_piece_size", offload.piece_size);
  refuse_size("zero_optimization.sub_group_size", offload.sub_group_size);
}

void resolve_adam(TrainConfig& c, const std::vector<Option>& given) {
  if (c.optimizer.type != "Adam") return;
  if (!is_given(given, "optimizer.params.adam_w_mode")) {
    const auto type = std::ranges::find(given, "optimizer.type", &Option::path);
    c.adam_w_mode = type != given.end() && type->given && !type->key.empty();
  }
  if (c.adam_w_mode) c.optimizer.type = "AdamW";
}

void resolve_decay(TrainConfig& c, const std::vector<Option>& given) {
  if (is_given(given, "zeropp.decayed_parameters")) return;
  const auto decay = std::ranges::find(given, "optimizer.params.weight_decay", &Option::path);
  if (decay != given.end() && decay->given && !decay->key.empty()) c.optimizer.decayed = "all";
}

void resolve_schedule(TrainConfig& c, const std::vector<Option>& given) {
  optim::ScheduleOptions& schedule = c.optimizer.schedule;
  const auto reads = [&](const char* name) { return optim::schedule_reads(schedule.type, name); };
  if (reads("total_num_steps") && schedule.total_num_steps == 0) {
    refuse(
        "scheduler.type {} needs scheduler.params.total_num_steps "
        "(--lr-decay-iters): give it, or auto in a file",
        schedule.type);
  }
  if (!reads("warmup_max_lr")) return;
  double& rate = c.optimizer.learning_rate;
  double& highest = schedule.warmup_max_lr;
  const bool is_chosen = std::ranges::any_of(given, [](const Option& option) {
    return option.path == "scheduler.params.warmup_max_lr" && (option.given || option.is_automatic);
  });
  if (!is_chosen && !reads("total_num_steps")) highest = rate;
  if (is_given(given, "optimizer.params.lr") && rate != highest) {
    refuse("{}, or leave optimizer.params.lr out", unused_rate(c, given));
  }
  rate = highest;
}

}  // namespace zeropp::config
