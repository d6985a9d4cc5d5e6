#include <fmt/format.h>

#include <algorithm>

#include "apps/plan/estimate_outputs.hpp"
#include "lib/base/units.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan {

namespace {

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) * 1e-9);
}

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / kGibibyte);
}

std::string phases(const StepTraffic& step, const comm::Topology& topology) {
  const auto nodes = static_cast<std::uint64_t>(topology.node_count);
  trace::TextTable table({"phase", "inside nodes GB", "across nodes GB", "out of a node GB",
                          "messages inside", "messages across"});
  const auto add = [&](const char* name, const Sent& sent) {
    const auto& [bytes, messages] = sent;
    table.add({name, gigabytes(bytes.intra), gigabytes(bytes.inter), gigabytes(bytes.inter / nodes),
               fmt::to_string(messages.intra), fmt::to_string(messages.inter)});
  };
  add("forward", step.forward);
  add("backward", step.backward);
  add("update", step.update);
  add("step", step.total());
  return table.str();
}

std::string collectives(const std::vector<PlannedCollective>& planned) {
  trace::TextTable table({"collective", "of", "phase", "algorithm", "codec", "group", "calls",
                          "inside nodes GB", "across nodes GB", "messages inside",
                          "messages across", "counts"});
  for (const auto& [row, messages] : planned) {
    table.add({row.operation, row.purpose, row.phase, row.algorithm, row.codec, row.group,
               fmt::to_string(row.calls), gigabytes(row.wire_bytes_intra),
               gigabytes(row.wire_bytes_inter), fmt::to_string(messages.intra),
               fmt::to_string(messages.inter), row.modelled ? "modelled" : "exact"});
  }
  return table.str();
}

std::string memory(const Estimate& estimate) {
  trace::TextTable table({"memory of a rank", "GiB"});
  std::size_t offloaded = 0;
  for (const zero::MemoryPart& part : estimate.memory) {
    if (part.bytes > 0) table.add({part.name, gibibytes(part.bytes)});
    if (zero::is_offloaded(part.name)) offloaded += part.bytes;
  }
  table.add(
      {offloaded > 0 ? "all that is not offloaded" : "all", gibibytes(estimate.memory_bytes)});
  return table.str() +
         "\narena: one block of memory for what is there during a part of the step alone, such as "
         "gathered weights.\n";
}

}  // namespace

std::string to_text(const PlannedRun& run, const Estimate& estimate) {
  const config::TrainConfig& config = run.config();
  std::string text = fmt::format(
      "{}, {} over {}: {} of {:.3g} parameters in {}, ZeRO stage {}, {} tokens a step\n\n",
      run.topology().describe(), enum_name(*config.backend), enum_name(*config.transport),
      config.model.name, static_cast<double>(estimate.parameters), name_of(config.zero.compute),
      config.zero.stage, estimate.tokens_per_step);
  text += phases(estimate.step, run.topology()) + "\n";
  text += collectives(estimate.collectives) + "\n";
  text += memory(estimate);
  if (estimate.initial != Sent{}) {
    text += fmt::format("\nonce, before the first step: {} GB inside nodes, {} GB across nodes\n",
                        gigabytes(estimate.initial.bytes.intra),
                        gigabytes(estimate.initial.bytes.inter));
  }
  return text;
}

}  // namespace zeropp::plan
