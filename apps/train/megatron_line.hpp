// Progress in the form of Megatron-LM's log, which its parsers and dashboards read: means over the
// steps since the line before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/trace/recorder.hpp"

namespace zeropp::train_app {

class MegatronLine {
 public:
  /// `steps`: of the run; `batch`: sequences a step, over all ranks.
  MegatronLine(std::size_t steps, std::size_t batch) : steps_(steps), batch_(batch) {}

  /// Every step, in order.
  void add(const trace::StepRow& row);
  /// The line after `steps_done` steps, without a newline; begins anew.
  [[nodiscard]] std::string take(std::uint64_t steps_done);

 private:
  std::size_t steps_;
  std::size_t batch_;
  std::size_t added_ = 0;
  std::size_t skipped_ = 0;
  double time_ = 0;  ///< seconds, of the added steps
  double loss_ = 0;  ///< sum over those that were taken
  trace::StepRow latest_ = {};
};

}  // namespace zeropp::train_app
