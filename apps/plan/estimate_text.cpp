#include <fmt/format.h>

#include <algorithm>

#include "apps/plan/byte_unit.hpp"
#include "apps/plan/estimate_outputs.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

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

std::string collectives(const std::vector<plan::PlannedCollective>& planned, const ByteUnit& unit) {
  trace::TextTable table({"collective", "of", "phase", "algorithm", "codec", "group", "calls",
                          fmt::format("inside nodes {}", unit.name),
                          fmt::format("across nodes {}", unit.name), "messages inside",
                          "messages across", "counts"});
  for (const auto& [row, messages] : planned) {
    table.add({row.operation, row.purpose, row.phase, row.algorithm, row.codec, row.group,
               fmt::to_string(row.calls), shown(row.wire_bytes_intra, unit),
               shown(row.wire_bytes_inter, unit), fmt::to_string(messages.intra),
               fmt::to_string(messages.inter), row.modelled ? "modelled" : "exact"});
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

}  // namespace

std::string to_text(const plan::PlannedRun& run, const plan::Estimate& estimate) {
  const config::TrainConfig& config = run.config();
  std::string text = fmt::format(
      "{}, {} over {}: {} of {:.3g} parameters in {}, ZeRO stage {}, {} tokens a step\n\n",
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

}  // namespace zeropp::plan_app
