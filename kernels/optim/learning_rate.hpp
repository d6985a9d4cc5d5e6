// The learning rate of a step: pure functions of the options and of the number of steps that were
// taken, one a schedule, in a table. DeepSpeed's rules, with its names. Its scheduler moves after a
// step that was taken, and not after one that was skipped:
//
//   step 1     what the scheduler begins with: warmup_min_lr, of WarmupCosineLR 0
//   step t     what it says of iteration i = t - 2: so the first two steps are alike
//
// With w = max(2, warmup_num_steps), and g(i) = ln(i + 1) / ln(w) or i / w (warmup_type) below w:
//
//   constant        learning_rate
//   WarmupLR        warmup_min_lr + (warmup_max_lr - warmup_min_lr) g, and g = 1 from w on
//   WarmupDecayLR   the same, and from w on g = (total_num_steps - i) / (total_num_steps - w), not
//                   below 0
//   WarmupCosineLR  learning_rate times warmup_min_ratio + (1 - warmup_min_ratio) g, and from w on
//                   times cos_min_ratio + (1 - cos_min_ratio) (1 + cos(pi p)) / 2 with
//                   p = (i - w + 1) / (total_num_steps - w), not above 1
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/optim/options.hpp"

namespace zeropp::optim {

struct Schedule {
  std::string_view name;  ///< as in DeepSpeed's scheduler.type
  std::string_view summary;
  std::vector<std::string_view> parameters;  ///< scheduler.params that it reads
  double (*begin)(const Options&);           ///< of step 1
  double (*later)(const Options&, std::uint64_t iteration);
};

/// The constant one first.
const std::vector<Schedule>& schedules();

/// Learning rate of step t (1, 2, ...), counting those that are taken. Throws std::invalid_argument
/// for an unknown options.schedule.type.
double learning_rate(const Options& options, std::uint64_t t);

}  // namespace zeropp::optim
