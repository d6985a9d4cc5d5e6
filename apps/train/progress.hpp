// What a person watching sees: one line that is rewritten on a terminal, one line a report
// elsewhere. Printed by rank 0 to standard output.
#pragma once

#include <cstddef>

#include "lib/trace/recorder.hpp"

namespace zeropp::train {

class Progress {
 public:
  /// `interval`: steps between lines where the output is no terminal.
  Progress(bool is_root, std::size_t steps, std::size_t interval);
  void report(std::uint64_t steps_done, const trace::StepRow& row) const;
  void report(const trace::EvaluationRow& row) const;

 private:
  bool is_root_;
  bool terminal_;
  std::size_t steps_;
  std::size_t interval_;
};

}  // namespace zeropp::train
