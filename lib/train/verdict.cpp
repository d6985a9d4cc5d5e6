#include "lib/train/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

namespace zeropp::train {

std::optional<std::string> wrong_bytes(const trace::Recorder& recorder) {
  for (std::size_t i = 0; i < recorder.steps.size(); ++i) {
    const trace::StepRow& step = recorder.steps[i];
    if (step.bytes_intra_node != step.bytes_predicted_intra_node ||
        step.bytes_inter_node != step.bytes_predicted_inter_node) {
      return fmt::format("step {} sent {} bytes inside nodes and {} across, predicted {} and {}", i,
                         step.bytes_intra_node, step.bytes_inter_node,
                         step.bytes_predicted_intra_node, step.bytes_predicted_inter_node);
    }
  }
  return std::nullopt;
}

std::optional<std::string> divergence(const trace::Recorder& recorder) {
  for (std::size_t i = 0; i < recorder.steps.size(); ++i) {
    if (!std::isfinite(recorder.steps[i].loss) && recorder.steps[i].skipped == 0) {
      return fmt::format("the loss of step {} is not finite", i);
    }
  }
  for (const trace::EvaluationRow& evaluation : recorder.evaluations) {
    if (!std::isfinite(evaluation.loss)) {
      return fmt::format("the held-out loss after {} steps is not finite", evaluation.step);
    }
  }
  // A skipped step is an incident; training that ends in one has diverged.
  const bool whole = recorder.interrupted.empty();
  if (whole && !recorder.steps.empty() && recorder.steps.back().skipped > 0) {
    return "the last step was skipped: its gradient is not finite";
  }
  return std::nullopt;
}

}  // namespace zeropp::train
