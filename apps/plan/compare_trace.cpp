#include "apps/plan/compare_outputs.hpp"
#include "lib/trace/column.hpp"

namespace zeropp::plan_app {

trace::Document to_document(const Comparison& comparison, const trace::TraceData& head) {
  using trace::column;
  const std::vector<ComparedRow> rows = all_rows(comparison);
  trace::Document document = trace::describe_run(head);
  document.groups.push_back(
      {"comparison",
       {},
       {column("feature", "",
               "Part of ZeRO++ that is on; none: ZeRO-3; all+differences: with weight differences; "
               "hybrid: sharding inside nodes",
               rows, &ComparedRow::feature),
        column("bytes_out_of_node", "bytes", "That leave one node in a step", rows,
               &ComparedRow::out_of_node),
        column("reduction", "1", "Bytes of none over the bytes of the row", rows,
               &ComparedRow::reduction),
        column("memory", "bytes", "What a rank holds on its device", rows, &ComparedRow::memory),
        column("step_seconds", "s", "At the cluster's own rate; NaN without a cluster", rows,
               &ComparedRow::seconds),
        column("speedup", "1", "Over none, there; NaN without", rows, &ComparedRow::speedup),
        column(
            "link_rate", "bytes/s",
            "Rate of a link between nodes below which it pays: 0 never, 1e13 always; NaN without",
            rows, &ComparedRow::link_rate),
        column("bound", "", "What takes the largest part of a step; empty without", rows,
               &ComparedRow::bound)}});
  const std::vector<InTurnRow>& in_turn = comparison.in_turn;
  document.groups.push_back(
      {"in_turn",
       {},
       {column("feature", "", "As in /comparison", in_turn, &InTurnRow::feature),
        column("bytes_out_of_node", "bytes",
               "That leave one node in a step whose micro-steps run one after the other", in_turn,
               &InTurnRow::out_of_node),
        column("reduction", "1", "Bytes of none over the bytes of the row", in_turn,
               &InTurnRow::reduction),
        column("step_seconds", "s", "With micro-steps one after the other; NaN without a cluster",
               in_turn, &InTurnRow::seconds),
        column("speedup", "1", "Over none, there; NaN without", in_turn, &InTurnRow::speedup)}});
  return document;
}

}  // namespace zeropp::plan_app
