// A comparison as text for a terminal and as the group of a trace.
#pragma once

#include <string>

#include "apps/plan/comparison.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::plan_app {

/// Facts, beside the comparison, that the text says.
struct Compared {
  const Variants& variants;
  const comm::Topology& topology;
  const plan::Cluster* cluster;  ///< null where no rates are known
  double gain;
  double memory;      ///< bytes that a rank may take; 0 where nobody says
  bool of_deepspeed;  ///< DeepSpeed runs the job: is_of_deepspeed()

  /// With all parts on.
  [[nodiscard]] const config::TrainConfig& all() const { return variants.features.back(); }
};

/// The table, a sentence about what to do, lines that do it, and where to read more; at most 120
/// columns, where the cluster's name and source and the lines to paste have no more.
std::string to_text(const Comparison& comparison, const Compared& about);

/// Trace of a comparison. `head` is describe_run()'s, of the process that planned.
trace::Document to_document(const Comparison& comparison, const trace::TraceData& head);

}  // namespace zeropp::plan_app
