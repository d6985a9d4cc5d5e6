// Progress that a person watches: one line that is rewritten on a terminal, one line a report
// elsewhere. Printed by rank 0 to standard output.
#pragma once

#include <cstddef>

#include "lib/config/train_config.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::train_app {

class Progress {
 public:
  Progress(bool is_root, const config::TrainConfig& config);
  /// Every step, in order.
  void report(std::uint64_t steps_done, const trace::StepRow& row);
  void report(const trace::EvaluationRow& row) const;

 private:
  bool is_root_;
  bool terminal_;
  std::size_t steps_;
  std::size_t interval_;  ///< steps between lines where the output is no terminal
};

}  // namespace zeropp::train_app
