#include "apps/train/megatron_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace zeropp::train_app {

void MegatronLine::add(const trace::StepRow& row) {
  ++added_;
  time_ += row.time;
  if (row.skipped > 0) {
    ++skipped_;
  } else {
    loss_ += row.loss;
  }
  latest_ = row;
}

std::string MegatronLine::take(std::uint64_t steps_done) {
  const auto added = static_cast<double>(std::max<std::size_t>(added_, 1));
  const auto taken = static_cast<double>(added_ - skipped_);
  // A step whose gradients are not finite is always skipped: none is counted as nan beside that.
  std::string line = fmt::format(
      " iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f} "
      "| learning rate: {:.6E} | global batch size: {:5d} |",
      steps_done, steps_, steps_done * batch_, time_ / added * 1e3, latest_.learning_rate, batch_);
  if (taken > 0) line += fmt::format(" lm loss: {:.6E} |", loss_ / taken);
  line += fmt::format(
      " loss scale: {:.1f} | grad norm: {:.3f} | number of skipped iterations: {:3d} | number of "
      "nan iterations: {:3d} |",
      latest_.loss_scale, latest_.grad_norm, skipped_, 0);
  *this = MegatronLine(steps_, batch_);
  return line;
}

}  // namespace zeropp::train_app
