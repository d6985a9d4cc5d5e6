#include "kernels/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace zeropp::optim {

namespace {

double warmup_steps(const ScheduleOptions& s) {
  return static_cast<double>(std::max<std::size_t>(2, s.warmup_num_steps));
}

bool warms_up(const ScheduleOptions& s, std::uint64_t i) {
  return static_cast<double>(i) < warmup_steps(s);
}

/// From 0 towards 1.
double warmup_share(const ScheduleOptions& s, std::uint64_t i) {
  const auto iteration = static_cast<double>(i);
  return s.warmup_type == "linear" ? iteration / warmup_steps(s)
                                   : 1.0 / std::log(warmup_steps(s)) * std::log(iteration + 1);
}

/// Number of steps that come after the warm-up; at least 1.
double steps_after_warmup(const ScheduleOptions& s) {
  return std::max(1.0, static_cast<double>(s.total_num_steps) - warmup_steps(s));
}

double between_rates(const ScheduleOptions& s, double share) {
  return s.warmup_min_lr + (s.warmup_max_lr - s.warmup_min_lr) * share;
}

double constant(const Options& o) { return o.learning_rate; }
double constant_later(const Options& o, std::uint64_t /*i*/) { return o.learning_rate; }

double least_rate(const Options& o) { return o.schedule.warmup_min_lr; }

double warmup(const Options& o, std::uint64_t i) {
  const ScheduleOptions& s = o.schedule;
  return between_rates(s, warms_up(s, i) ? warmup_share(s, i) : 1.0);
}

double warmup_decay(const Options& o, std::uint64_t i) {
  const ScheduleOptions& s = o.schedule;
  if (warms_up(s, i)) return between_rates(s, warmup_share(s, i));
  const double left = static_cast<double>(s.total_num_steps) - static_cast<double>(i);
  return between_rates(s, std::max(0.0, left / steps_after_warmup(s)));
}

double zero(const Options& /*o*/) { return 0.0; }

double warmup_cosine(const Options& o, std::uint64_t i) {
  const ScheduleOptions& s = o.schedule;
  if (warms_up(s, i)) {
    return o.learning_rate * (s.warmup_min_ratio + warmup_share(s, i) * (1.0 - s.warmup_min_ratio));
  }
  const double step = static_cast<double>(i) - warmup_steps(s) + 1;
  const double progress = std::min(1.0, step / steps_after_warmup(s));
  const double share = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return o.learning_rate * std::max(0.0, s.cos_min_ratio + (1.0 - s.cos_min_ratio) * share);
}

const Schedule* find_schedule(std::string_view type) {
  const auto found = std::ranges::find(schedules(), type, &Schedule::name);
  return found == schedules().end() ? nullptr : &*found;
}

bool reads(const Schedule& schedule, std::string_view parameter) {
  return std::ranges::find(schedule.parameters, parameter) != schedule.parameters.end();
}

}  // namespace

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> table{
      {.name = "constant",
       .summary = "the optimizer's rate in every step",
       .parameters = {},
       .begin = constant,
       .later = constant_later},
      {.name = "WarmupCosineLR",
       .summary = "warm-up to the optimizer's rate, then a cosine down to a share of it",
       .parameters = {"warmup_min_ratio", "warmup_num_steps", "warmup_type", "total_num_steps",
                      "cos_min_ratio"},
       .begin = zero,
       .later = warmup_cosine},
      {.name = "WarmupDecayLR",
       .summary = "warm-up to a rate, then linearly down to the least rate",
       .parameters = {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type",
                      "total_num_steps"},
       .begin = least_rate,
       .later = warmup_decay},
      {.name = "WarmupLR",
       .summary = "warm-up to a rate that stays",
       .parameters = {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"},
       .begin = least_rate,
       .later = warmup}};
  return table;
}

double learning_rate(const Options& options, std::uint64_t t) {
  const Schedule* const schedule = find_schedule(options.schedule.type);
  if (schedule == nullptr) {
    throw std::invalid_argument("no scheduler '" + options.schedule.type + "'");
  }
  return t < 2 ? schedule->begin(options) : schedule->later(options, t - 2);
}

std::vector<std::string> schedule_types() {
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  return names;
}

bool schedule_reads(std::string_view type, std::string_view parameter) {
  const Schedule* const schedule = find_schedule(type);
  return schedule != nullptr && reads(*schedule, parameter);
}

std::string schedule_readers(std::string_view parameter) {
  std::string text;
  for (const Schedule& schedule : schedules()) {
    if (!reads(schedule, parameter)) continue;
    text += (text.empty() ? "" : " or ") + std::string(schedule.name);
  }
  return text;
}

}  // namespace zeropp::optim
