#include "lib/train/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  if (recorder.weights_damaged) {
    return fmt::format(
        "the norm of the gradients of step {} is {}, and zeropp.update_in_backward had updated "
        "weights before it was known: resume from a checkpoint with a smaller learning rate, or "
        "leave it out to skip such steps",
        recorder.first_step + recorder.steps.size() - 1, recorder.steps.back().grad_norm);
  }
  if (recorder.gave_up && !recorder.corruption.empty()) return recorder.corruption;
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
  if (recorder.steps.empty() || !recorder.interrupted.empty()) return std::nullopt;
  // A skipped step is an incident; training that ends in one has diverged. A dynamic loss scale
  // skips steps on its way, but not all of them.
  const auto skipped = [](const trace::StepRow& step) { return step.skipped > 0; };
  if (!recorder.searches_loss_scale && skipped(recorder.steps.back())) {
    return "the last step was skipped: its gradient is not finite";
  }
  if (recorder.gave_up) {
    return fmt::format(
        "training gave up: gradients are not finite at loss scale {}: choose a smaller "
        "fp16.min_loss_scale or learning rate, or compute in bf16",
        recorder.steps.back().loss_scale);
  }
  if (recorder.first_step == 0 && std::ranges::all_of(recorder.steps, skipped)) {
    return "all steps were skipped: their gradients are not finite";
  }
  return std::nullopt;
}

}  // namespace zeropp::train
