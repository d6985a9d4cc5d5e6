#include "apps/train/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "lib/base/standard_output.hpp"

namespace zeropp::train_app {
namespace {

/// Open MPI's launcher hands every rank a pseudo-terminal as standard output, wherever its own
/// goes, but a pipe as standard error.
bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

/// Three significant digits in units of 10^6 bytes, down to the byte.
std::string megabytes(std::uint64_t bytes) {
  constexpr int kToTheByte = 6;
  const double value = static_cast<double>(bytes) * 1e-6;
  const int before_point = bytes == 0 ? 0 : static_cast<int>(std::floor(std::log10(value)));
  return fmt::format("{:.{}f}", value,
                     bytes == 0 ? 0 : std::clamp(2 - before_point, 0, kToTheByte));
}

std::string skipped(double loss_scale) {
  const std::string scale = loss_scale == 1 ? "" : fmt::format(" at loss scale {}", loss_scale);
  return "  SKIPPED: non-finite gradient" + scale;
}

}  // namespace

Progress::Progress(bool is_root, const config::TrainConfig& config)
    : is_root_(is_root),
      terminal_(is_terminal()),
      steps_(config.train_steps),
      interval_(config.log_interval) {}

void Progress::report(std::uint64_t steps_done, const trace::StepRow& row) {
  if (!is_root_) return;
  const bool last = steps_done == steps_;
  const bool due = last || steps_done % interval_ == 0;
  if (!terminal_ && !due) return;
  standard_output::print(
      "{}step {}/{}  loss {:.4f}  norm {:.3f}  {:.0f} ms  {:.0f} tokens/s  {} MB across "
      "nodes{}{}",
      terminal_ ? "\r" : "", steps_done, steps_, row.loss, row.grad_norm, row.time * 1e3,
      row.tokens_per_second, megabytes(row.bytes_inter_node),
      row.skipped > 0 ? skipped(row.loss_scale) : "", terminal_ && !last ? "   " : "\n");
}

void Progress::report(const trace::EvaluationRow& row) const {
  if (!is_root_) return;
  const std::string of_bytes =
      std::isnan(row.bits_per_byte) ? "" : fmt::format("  {:.4f} bits a byte", row.bits_per_byte);
  standard_output::print("{}step {}  held-out loss {:.4f} nats{}\n", terminal_ ? "\r" : "",
                         row.step, row.loss, of_bytes);
}

}  // namespace zeropp::train_app
