// ordered: all-to-all in the plain dtype, then one fp32 sum in rank order: the uncompressed
// reduction whose bits depend on nothing but the values.
#include "lib/collective/entries.hpp"
#include "lib/collective/one_hop_reduce.hpp"

namespace zeropp::collective {

const ReduceScatterAlgorithm reduce_scatter_ordered = {
    .name = "ordered",
    .summary = "all-to-all uncompressed, one fp32 sum in rank order",
    .traits = {.hierarchical = false,
               .any_codec = false,
               .modelled = false,
               .deterministic = true,
               .to_everyone = true},
    .ranks_in_sums = [](const comm::Topology&) { return std::size_t{1}; },
    .describe = [](const Ranks& ranks, const ReduceScatterPlan& plan) -> Description {
      const codec::Codec identity(plan.codec_first, plan.plain);
      return describe_one_hop(ranks, plan, reduce_scatter_ordered, identity, identity.block());
    },
    .plan = [](const Context& context,
               const ReduceScatterPlan& plan) -> std::unique_ptr<ReduceScatter> {
      const codec::Codec identity(plan.codec_first, plan.plain, context.device.backend);
      return std::make_unique<OneHopReduce>(context, plan, reduce_scatter_ordered, identity,
                                            identity.block());
    }};

}  // namespace zeropp::collective
