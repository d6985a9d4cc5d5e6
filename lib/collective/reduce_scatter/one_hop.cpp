// 1-hop: encode, all-to-all over the group, decode and sum in rank order.
#include "lib/collective/entries.hpp"
#include "lib/collective/one_hop_reduce.hpp"

namespace zeropp::collective {

const ReduceScatterAlgorithm reduce_scatter_one_hop = {
    .name = "1-hop",
    .summary = "encode, all-to-all, sum in rank order",
    .traits = {.hierarchical = false,
               .any_codec = true,
               .modelled = false,
               .deterministic = true,
               .to_everyone = true,
               .feedback = true},
    .ranks_in_sums = [](const comm::Topology&) { return std::size_t{1}; },
    .describe = [](const Ranks& ranks, const ReduceScatterPlan& plan) -> Description {
      const codec::Codec codec(plan.codec_first, plan.plain);
      return describe_one_hop(ranks, plan, reduce_scatter_one_hop, codec, codec.block(),
                              plan.only_hop);
    },
    .plan = [](const Context& context,
               const ReduceScatterPlan& plan) -> std::unique_ptr<ReduceScatter> {
      const codec::Codec codec(plan.codec_first, plan.plain, context.device.backend);
      return std::make_unique<OneHopReduce>(context, plan, reduce_scatter_one_hop, codec,
                                            codec.block(), plan.only_hop);
    }};

}  // namespace zeropp::collective
