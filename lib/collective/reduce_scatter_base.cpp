#include "lib/collective/reduce_scatter_base.hpp"

#include "lib/collective/require.hpp"

namespace zeropp::collective {

Description described(const ReduceScatterAlgorithm& algorithm, const Ranks& ranks,
                      const ReduceScatterPlan& plan, const Traffic& traffic, std::size_t workspace,
                      const std::string& codec, const std::string& path) {
  return {traffic,
          workspace,
          {.operation = "reduce_scatter",
           .purpose = plan.purpose,
           .phase = {},
           .algorithm = std::string(algorithm.name),
           .codec = codec,
           .group = ranks.group.name,
           .path = path,
           .modelled = algorithm.traits.modelled}};
}

ReduceScatterBase::ReduceScatterBase(const Context& context, const ReduceScatterPlan& plan,
                                     const ReduceScatterAlgorithm& algorithm, std::size_t block)
    : group_(context.group),
      plan_(plan),
      description_(algorithm.describe(ranks_of(context), plan)),
      meter_(context.recorder, description_.row),
      chunks_(plan, algorithm.traits, block) {}

void ReduceScatterBase::start(ConstView full, View sum, const Run& run) {
  require_view("a reduce-scatter's input", full, span_of(plan_.parts, size()), plan_.memory);
  require_view("a reduce-scatter's sum", sum, plan_.parts.count, Dtype::fp32);
  require_workspace(run.workspace.size(), workspace_bytes());
  meter_.begin_run(run.phase, (size() - 1) * plan_.parts.count * size_of(plan_.plain));
  const Meter::Span span(meter_);
  full_ = full;
  sum_ = sum.part(0, plan_.parts.count);
  workspace_ = run.workspace;
  stream_ = run.stream;
  key_ = run.key;
  begin();
}

void ReduceScatterBase::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  stream_ = stream;
  complete();
}

}  // namespace zeropp::collective
