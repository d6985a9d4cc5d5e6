#include "lib/collective/reduce_scatter_base.hpp"

#include "lib/collective/require.hpp"

namespace zeropp::collective {

Description described(const ReduceScatterAlgorithm& algorithm, const Ranks& ranks,
                      const ReduceScatterPlan& plan, const Traffic& traffic, std::size_t workspace,
                      const std::string& codec, const std::string& path) {
  return {traffic,
          workspace,
          {.operation = "reduce_scatter",
           .purpose = plan.label.purpose,
           .phase = plan.label.phase,
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

HopEncode ReduceScatterBase::feedback_in(int hop, const codec::Codec& codec, std::size_t parts,
                                         const HopSpace& space) {
  if (!plan_.feedback) return {codec, nullptr, 0, {}};
  return {codec, plan_.feedback->errors->add_hop(hop, parts, plan_.parts.count),
          plan_.feedback->options.beta, space};
}

void ReduceScatterBase::start(ConstView full, View sum, std::span<std::byte> workspace,
                              StreamHandle stream, std::uint64_t key) {
  require_view("a reduce-scatter's input", full, span_of(plan_.parts, size()), plan_.memory);
  require_view("a reduce-scatter's sum", sum, plan_.parts.count, Dtype::fp32);
  require_workspace(workspace.size(), workspace_bytes());
  const Meter::Span span(meter_);
  full_ = full;
  sum_ = sum.part(0, plan_.parts.count);
  workspace_ = workspace;
  stream_ = stream;
  key_ = key;
  meter_.count_call((size() - 1) * plan_.parts.count * size_of(plan_.plain));
  begin();
}

void ReduceScatterBase::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  stream_ = stream;
  complete();
}

}  // namespace zeropp::collective
