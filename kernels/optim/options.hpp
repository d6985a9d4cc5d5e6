// Options of the optimizer and of its learning rate, as plain values, and which of them an
// optimizer or a schedule reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/enum_names.hpp"

namespace zeropp::optim {

/// How an optimizer keeps its moments from step to step (moments.hpp); it computes in fp32.
enum class Moments : std::uint8_t { fp32, bf16, int8 };
constexpr auto enum_names(Moments) { return name_table("fp32", "bf16", "int8"); }

/// Elements that share a scale in 8 bits. Tensors begin at multiples of it in their unit, and
/// shards are cut there: so no block has elements of two tensors or of two ranks.
inline constexpr std::size_t kMomentBlock = 64;

/// Elements that shards have to be cut at multiples of.
constexpr std::size_t moment_alignment(Moments moments) {
  return moments == Moments::int8 ? kMomentBlock : 1;
}

/// DeepSpeed's parameters of a scheduler, with its names and defaults. learning_rate.hpp says what
/// each schedule makes of them.
struct ScheduleOptions {
  std::string type = "constant";  ///< an entry of schedules()
  double warmup_min_lr = 0;
  double warmup_max_lr = 1e-3;
  std::size_t warmup_num_steps = 1000;  ///< fewer than 2 count as 2
  std::string warmup_type = "log";      ///< log, linear
  std::size_t total_num_steps = 0;
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;
};

struct Options {
  std::string type = "AdamW";   ///< an entry of kernels/optim/rules
  double learning_rate = 1e-3;  ///< of every step, or of the schedule's peak
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  std::string decayed = "matrices";  ///< which parameters it shrinks: these, or all
  double momentum = 0.0;
  bool nesterov = false;
  Moments moments = Moments::fp32;
  ScheduleOptions schedule = {};
};

/// The optimizers that there are, in alphabetical order.
std::vector<std::string> types();

/// Whether the optimizer `type` reads a parameter, by DeepSpeed's name of it ("lr", "betas", ...).
/// False for an unknown type.
bool reads(std::string_view type, std::string_view parameter);

/// Whether the optimizer keeps anything from step to step; false for an unknown type.
bool keeps_moments(const Options& options);

/// "AdamW or Lion": the optimizers that read a parameter.
std::string readers(std::string_view parameter);

/// Schedules that there are, whether one reads a parameter of scheduler.params, and which do: as
/// types(), reads() and readers() of optimizers.
std::vector<std::string> schedule_types();
bool schedule_reads(std::string_view type, std::string_view parameter);
std::string schedule_readers(std::string_view parameter);

}  // namespace zeropp::optim
