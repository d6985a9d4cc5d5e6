#include "apps/plan/estimate_outputs.hpp"
#include "lib/trace/column.hpp"

namespace zeropp::plan {

namespace {

using trace::column;

struct PhaseRow {
  std::string phase;
  comm::Bytes bytes;
};

std::vector<PhaseRow> phase_rows(const Estimate& e) {
  return {{"forward", e.step.forward},
          {"backward", e.step.backward},
          {"update", e.step.update},
          {"step", e.step.total()},
          {"step, modelled", e.step.modelled},
          {"step, weights unchanged", e.step_same_weights.total()},
          {"initial", e.initial},
          {"evaluation", e.evaluation}};
}

trace::Group job_group(const PlannedRun& run, const Estimate& e) {
  const comm::Topology& t = run.topology();
  return {"job",
          {{"world_size", static_cast<std::uint64_t>(t.world_size)},
           {"node_count", static_cast<std::uint64_t>(t.node_count)},
           {"ranks_per_node", static_cast<std::uint64_t>(t.ranks_per_node)},
           {"parameters", std::uint64_t{e.parameters}},
           {"tokens_per_step", e.tokens_per_step},
           {"flops_per_step", e.flops_per_step},
           {"memory_bytes", std::uint64_t{e.memory_bytes}}},
          {}};
}

trace::Group traffic_group(const Estimate& e) {
  const auto rows = phase_rows(e);
  return {"traffic",
          {},
          {column("phase", "",
                  "Of an ordinary step, and as a whole; of it what is modelled; of a step with "
                  "weights that an evaluation gathered; before the first step; of an evaluation's "
                  "first micro-batch",
                  rows, &PhaseRow::phase),
           column("bytes_intra_node", "bytes", "Inside nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.bytes.intra; }),
           column("bytes_inter_node", "bytes", "Across nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.bytes.inter; })}};
}

trace::Group collectives_group(const std::vector<trace::CollectiveRow>& rows) {
  using Row = trace::CollectiveRow;
  return {"collectives",
          {},
          {column("operation", "", "", rows, &Row::operation),
           column("purpose", "", "Which traffic of the engine", rows, &Row::purpose),
           column("phase", "", "Of the step", rows, &Row::phase),
           column("algorithm", "", "", rows, &Row::algorithm),
           column("codec", "", "", rows, &Row::codec), column("group", "", "", rows, &Row::group),
           column("path", "", "Of a reduction that encodes again", rows, &Row::path),
           column("modelled", "bool", "Bytes are the closed form of a ring", rows,
                  [](const Row& row) { return std::uint64_t{row.modelled ? 1U : 0U}; }),
           column("calls", "calls", "Of each rank, in an ordinary step", rows, &Row::calls),
           column("wire_bytes_intra", "bytes", "Over all ranks", rows, &Row::wire_bytes_intra),
           column("wire_bytes_inter", "bytes", "Over all ranks", rows, &Row::wire_bytes_inter)}};
}

trace::Group memory_group(const Estimate& e) {
  return {"memory",
          {},
          {column("name", "", "What it holds", e.memory, &zero::MemoryPart::name),
           column("bytes", "bytes", "On a rank", e.memory,
                  [](const zero::MemoryPart& part) { return std::uint64_t{part.bytes}; })}};
}

}  // namespace

trace::Document to_document(const PlannedRun& run, const Estimate& estimate,
                            const trace::TraceData& head) {
  trace::Document document = trace::describe_run(head);
  document.groups.push_back(job_group(run, estimate));
  document.groups.push_back(traffic_group(estimate));
  document.groups.push_back(collectives_group(estimate.collectives));
  document.groups.push_back(memory_group(estimate));
  return document;
}

}  // namespace zeropp::plan
