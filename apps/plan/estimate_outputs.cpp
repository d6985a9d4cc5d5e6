#include "apps/plan/estimate_outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "apps/plan/byte_unit.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

using trace::column;

std::string shown(std::uint64_t bytes, const ByteUnit& unit) {
  return in_unit(static_cast<double>(bytes), unit);
}

ByteUnit unit_of(const comm::Bytes& bytes) {
  return decimal_unit(static_cast<double>(std::max(bytes.intra, bytes.inter)));
}

std::string phases(const plan::StepTraffic& step, const comm::Topology& topology,
                   const ByteUnit& unit) {
  const auto nodes = static_cast<std::uint64_t>(topology.node_count);
  trace::TextTable table({"phase", fmt::format("inside nodes {}", unit.name),
                          fmt::format("across nodes {}", unit.name),
                          fmt::format("out of a node {}", unit.name), "messages inside",
                          "messages across"});
  const auto add = [&](const char* name, const plan::Sent& sent) {
    const auto& [bytes, messages] = sent;
    table.add({name, shown(bytes.intra, unit), shown(bytes.inter, unit),
               shown(bytes.inter / nodes, unit), fmt::to_string(messages.intra),
               fmt::to_string(messages.inter)});
  };
  add("forward", step.forward);
  add("backward", step.backward);
  add("update", step.update);
  add("step", step.total());
  return table.str();
}

const char* counted_how(const trace::CollectiveRow& row) {
  if (row.codec == "exact") return "assumed";  // --exact-planned-bits
  return row.modelled ? "modelled" : "exact";
}

std::string collectives(const std::vector<plan::PlannedCollective>& planned, const ByteUnit& unit) {
  trace::TextTable table({"collective", "of", "phase", "algorithm", "codec", "group", "calls",
                          fmt::format("inside nodes {}", unit.name),
                          fmt::format("across nodes {}", unit.name), "messages inside",
                          "messages across", "counts"});
  for (const auto& [row, messages] : planned) {
    table.add({row.operation, row.purpose, row.phase, row.algorithm, row.codec, row.group,
               fmt::to_string(row.calls), shown(row.wire_bytes_intra, unit),
               shown(row.wire_bytes_inter, unit), fmt::to_string(messages.intra),
               fmt::to_string(messages.inter), counted_how(row)});
  }
  return table.str();
}

std::string memory(const plan::Estimate& estimate) {
  const ByteUnit unit = binary_unit(static_cast<double>(estimate.memory_bytes));
  trace::TextTable table({"memory of a rank", std::string(unit.name)});
  std::size_t offloaded = 0;
  for (const zero::MemoryPart& part : estimate.memory) {
    if (part.bytes > 0) table.add({part.name, shown(part.bytes, unit)});
    if (zero::is_offloaded(part.name)) offloaded += part.bytes;
  }
  table.add(
      {offloaded > 0 ? "all that is not offloaded" : "all", shown(estimate.memory_bytes, unit)});
  return table.str() +
         "\narena: one block of memory for what is there during a part of the step alone, such as "
         "gathered weights.\n";
}

struct PhaseRow {
  std::string phase;
  plan::Sent sent;
};

std::vector<PhaseRow> phase_rows(const plan::Estimate& e) {
  return {{"forward", e.step.forward},
          {"backward", e.step.backward},
          {"update", e.step.update},
          {"step", e.step.total()},
          {"step, modelled", e.step.modelled},
          {"step, weights unchanged", e.step_same_weights.total()},
          {"initial", e.initial},
          {"evaluation", e.evaluation}};
}

trace::Group job_group(const plan::PlannedRun& run, const plan::Estimate& e) {
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

/// Groups of a trace that bytes and memory follow from, beside the configuration: for who checks
/// them.
std::vector<trace::Group> model_groups(const model::Description& model) {
  struct TensorRow {
    std::uint64_t unit;
    const zero::Tensor* tensor;
  };
  std::vector<TensorRow> tensors;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const zero::Tensor& tensor : model.units[unit].tensors) tensors.push_back({unit, &tensor});
  }
  return {{"units",
           {},
           {column("name", "", "Unit of parameters", model.units, &zero::Unit::name),
            column("elements", "elements", "Parameters, without padding", model.units,
                   [](const zero::Unit& unit) { return std::uint64_t{unit.parameters()}; })}},
          {"tensors",
           {},
           {column("unit", "", "Index of its unit in /units", tensors, &TensorRow::unit),
            column("name", "", "Name in the model", tensors,
                   [](const TensorRow& row) { return row.tensor->name; }),
            column("elements", "elements", "Parameters", tensors,
                   [](const TensorRow& row) { return std::uint64_t{row.tensor->count()}; })}},
          {"layers",
           {},
           {column("name", "", "Step of forward", model.layers, &zero::Layer::name),
            column("units", "", "Indices in /units in order of use, comma-separated", model.layers,
                   [](const zero::Layer& layer) {
                     return fmt::format("{}", fmt::join(layer.units, ","));
                   })}}};
}

trace::Group traffic_group(const plan::Estimate& e) {
  const auto rows = phase_rows(e);
  return {"traffic",
          {},
          {column("phase", "",
                  "Of the planned step, and as a whole; of it what is modelled; of a step with "
                  "weights that an evaluation gathered; before the first step; of an evaluation's "
                  "first micro-batch",
                  rows, &PhaseRow::phase),
           column("bytes_intra_node", "bytes", "Inside nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.sent.bytes.intra; }),
           column("bytes_inter_node", "bytes", "Across nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.sent.bytes.inter; }),
           column("messages_intra_node", "messages", "Inside nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.sent.messages.intra; }),
           column("messages_inter_node", "messages", "Across nodes, over all ranks", rows,
                  [](const PhaseRow& row) { return row.sent.messages.inter; })}};
}

trace::Group collectives_group(const std::vector<plan::PlannedCollective>& planned) {
  using Row = trace::CollectiveRow;
  std::vector<Row> rows;
  rows.reserve(planned.size());
  for (const plan::PlannedCollective& each : planned) rows.push_back(each.row);
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
           column("calls", "calls", "Of each rank, in the planned step", rows, &Row::calls),
           column("wire_bytes_intra", "bytes", "Over all ranks", rows, &Row::wire_bytes_intra),
           column("wire_bytes_inter", "bytes", "Over all ranks", rows, &Row::wire_bytes_inter),
           column("messages_intra", "messages", "Over all ranks", planned,
                  [](const plan::PlannedCollective& each) { return each.messages.intra; }),
           column("messages_inter", "messages", "Over all ranks", planned,
                  [](const plan::PlannedCollective& each) { return each.messages.inter; })}};
}

trace::Group memory_group(const plan::Estimate& e) {
  return {"memory",
          {},
          {column("name", "", "What it holds", e.memory, &zero::MemoryPart::name),
           column("bytes", "bytes", "On a rank", e.memory,
                  [](const zero::MemoryPart& part) { return std::uint64_t{part.bytes}; })}};
}

}  // namespace

std::string to_text(const plan::PlannedRun& run, const plan::Estimate& estimate) {
  const config::TrainConfig& config = run.config();
  std::string text = fmt::format(
      "{}, {} over {}: {} of {:.3g} parameters in {}, ZeRO stage {}, {} tokens per step\n\n",
      run.topology().describe(), enum_name(*config.backend), enum_name(*config.transport),
      config.model.name, static_cast<double>(estimate.parameters), name_of(config.zero.compute),
      config.zero.stage, estimate.tokens_per_step);
  const ByteUnit unit = unit_of(estimate.step.total().bytes);
  text += phases(estimate.step, run.topology(), unit) + "\n";
  text += collectives(estimate.collectives, unit) + "\n";
  text += memory(estimate);
  if (estimate.initial != plan::Sent{}) {
    const comm::Bytes& once = estimate.initial.bytes;
    const ByteUnit of_once = unit_of(once);
    text += fmt::format("\nonce, before the first step: {} {} inside nodes, {} {} across nodes\n",
                        shown(once.intra, of_once), of_once.name, shown(once.inter, of_once),
                        of_once.name);
  }
  return text;
}

trace::Document to_document(const plan::PlannedRun& run, const plan::Estimate& estimate,
                            const trace::TraceData& head) {
  trace::Document document = trace::describe_run(head);
  document.groups.push_back(job_group(run, estimate));
  for (trace::Group& group : model_groups(run.model())) {
    document.groups.push_back(std::move(group));
  }
  document.groups.push_back(traffic_group(estimate));
  document.groups.push_back(collectives_group(estimate.collectives));
  document.groups.push_back(memory_group(estimate));
  return document;
}

}  // namespace zeropp::plan_app
