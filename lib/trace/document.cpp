#include "lib/trace/document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/sha256.hpp"

namespace zeropp::trace {
namespace {

std::uint64_t flag(bool value) { return value ? 1 : 0; }

std::vector<Attribute> root_attributes(const TraceData& t) {
  const Provenance& p = t.provenance;
  std::vector<Attribute> attributes{
      {"schema", schema_name},
      {"schema_version", schema_version},
      {"app", t.app},
      {"version", p.version},
      {"git_commit", p.git_commit},
      {"git_dirty", flag(p.git_dirty)},
      {"build_type", p.build_type},
      {"cxx_compiler", p.cxx_compiler},
      {"mpi_library", p.mpi_library},
      {"hdf5_version", p.hdf5_version},
      {"kokkos_version", p.kokkos_version},
      {"blas_library", p.blas_library},
      {"cuda_versions", p.cuda_versions},
      {"backend", t.backend},
      {"transport", t.transport},
      {"run_id", p.run_id},
      {"started_at", p.started_at},
      {"command_line", p.command_line},
      {"config_json", t.config_json},
      {"config_hash", sha256_hex(t.config_json)},
      {"world_size", t.world_size},
      {"node_count", t.node_count},
      {"ranks_per_node", t.ranks_per_node},
      {"emulated", flag(t.emulated)},
      {"seed", t.seed},
      {"verdict", t.verdict},
      {"interrupted", t.interrupted},
  };
  for (const auto& [name, value] : p.job) attributes.push_back({name, value});
  return attributes;
}

std::vector<Attribute> training_attributes(const TraceData& t) {
  return {{"kernels", t.kernels},
          {"flops_per_token", t.flops_per_token},
          {"hardware_flops_per_token", t.hardware_flops_per_token},
          {"parameters_hash", t.parameters_hash},
          {"first_step", t.first_step},
          {"deterministic", flag(t.deterministic)}};
}

Group environment(const TraceData& t) {
  Group group{"env", {}, {}};
  for (const auto& [name, value] : t.provenance.environment)
    group.attributes.push_back({name, value});
  return group;
}

Group ranks(const TraceData& t) {
  const auto& rows = t.ranks;
  return {"ranks",
          {},
          {column("host", "", "Name of the machine", rows, &RankRow::host),
           column("node", "", "Node of the topology", rows, &RankRow::node),
           column("local_rank", "", "Rank inside the node", rows, &RankRow::local_rank),
           column("pid", "", "Process id", rows, &RankRow::pid),
           column("gpu", "", "GPU, empty on the host back end", rows, &RankRow::gpu),
           column("gpu_uuid", "", "Its UUID", rows, &RankRow::gpu_uuid),
           column("gpu_pci", "", "Its PCI address", rows, &RankRow::gpu_pci)}};
}

Group gpus(const TraceData& t) {
  const auto& rows = t.gpus.rows;
  return {
      "gpus",
      {{"period", t.gpus.period}, {"absent", t.gpus.absent}, {"throttled", t.gpus.throttled}},
      {column("rank", "", "Whose GPU", rows, &GpuRow::rank),
       column("time", "s", "Since this rank's readings began", rows, &GpuRow::time),
       column("sm_clock", "MHz", "Of the multiprocessors; NaN: not told", rows, &GpuRow::sm_clock),
       column("memory_clock", "MHz", "Of its memory; NaN: not told", rows, &GpuRow::memory_clock),
       column("power", "W", "Drawn by the board; NaN: not told", rows, &GpuRow::power),
       column("temperature", "degC", "Of the chip; NaN: not told", rows, &GpuRow::temperature),
       column("utilization", "%", "Share of time in which a kernel ran; NaN: not told", rows,
              &GpuRow::utilization),
       column("memory_utilization", "%",
              "Share of time in which memory was read or written; NaN: not told", rows,
              &GpuRow::memory_utilization),
       column("reasons", "", "Why clocks are not higher: NVML's clock event reasons", rows,
              &GpuRow::reasons)}};
}

Group units(const TraceData& t) {
  const auto& rows = t.units;
  return {"units",
          {},
          {column("name", "", "Unit of parameters", rows, &UnitRow::name),
           column("elements", "elements", "Parameters, without padding", rows, &UnitRow::elements),
           column("flat", "elements", "Flat buffer, with tensor alignment", rows, &UnitRow::flat),
           column("padded", "elements", "World size times shard", rows, &UnitRow::padded),
           column("shard", "elements", "Part of one rank", rows, &UnitRow::shard),
           column("gathers_forward", "gathers per micro-step",
                  "Of the first micro-step, at stage 3", rows, &UnitRow::gathers_forward),
           column("gathers_backward", "gathers per micro-step",
                  "Of the first micro-step, at stage 3", rows, &UnitRow::gathers_backward)}};
}

Group tensors(const TraceData& t) {
  const auto& rows = t.tensors;
  return {"tensors",
          {},
          {column("unit", "", "Index of its unit in /units", rows, &TensorRow::unit),
           column("name", "", "Name in the model", rows, &TensorRow::name),
           column("elements", "elements", "Parameters", rows, &TensorRow::elements),
           column("offset", "elements", "From the unit's begin", rows, &TensorRow::offset)}};
}

Group layers(const TraceData& t) {
  const auto& rows = t.layers;
  return {"layers",
          {},
          {column("name", "", "Step of forward", rows, &LayerRow::name),
           column("units", "", "Indices in /units in order of use, comma-separated", rows,
                  [](const LayerRow& row) { return fmt::format("{}", fmt::join(row.units, ",")); }),
           column("flops_per_token", "operations", "Its part of the model's, forward and backward",
                  rows, &LayerRow::flops_per_token),
           column("hardware_flops_per_token", "operations", "With what is computed again", rows,
                  &LayerRow::hardware_flops_per_token)}};
}

Group steps(const TraceData& t) {
  const auto& rows = t.steps;
  Group group = {
      "steps",
      {},
      {column("loss", "nats per token", "Mean over ranks and micro-steps", rows, &StepRow::loss),
       column("grad_norm", "1", "Global norm of the mean gradient, before clipping", rows,
              &StepRow::grad_norm),
       column("time", "s", "Wall time up to the exchange of results, largest over ranks", rows,
              &StepRow::time),
       column("tokens_per_second", "tokens/s", "Over all ranks", rows, &StepRow::tokens_per_second),
       column("bytes_intra_node", "bytes", "Sent inside nodes, sum over ranks, counted", rows,
              &StepRow::bytes_intra_node),
       column("bytes_inter_node", "bytes", "Sent across nodes, sum over ranks, counted", rows,
              &StepRow::bytes_inter_node),
       column("bytes_predicted_intra_node", "bytes", "The same in closed form", rows,
              &StepRow::bytes_predicted_intra_node),
       column("bytes_predicted_inter_node", "bytes", "The same in closed form", rows,
              &StepRow::bytes_predicted_inter_node),
       column("learning_rate", "1",
              "Of this step; where it is skipped, of the next one that is taken", rows,
              &StepRow::learning_rate),
       column("loss_scale", "1", "That the loss was multiplied by before backward", rows,
              &StepRow::loss_scale),
       column("skipped", "bool", "1: a gradient was not finite and no rank stepped", rows,
              &StepRow::skipped),
       column("time_forward", "s", "Largest over ranks", rows, &StepRow::time_forward),
       column("time_backward", "s", "Largest over ranks", rows, &StepRow::time_backward),
       column("time_communication_exposed", "s",
              "Compute waiting for collectives, largest over ranks", rows,
              &StepRow::time_communication_exposed),
       column("time_gather", "s",
              "Gathers of weights at work, beside compute or not, largest over ranks", rows,
              &StepRow::time_gather),
       column("time_reduce", "s",
              "Reductions of gradients at work, beside compute or not, largest over ranks", rows,
              &StepRow::time_reduce),
       column("time_optimizer", "s",
              "The optimizer at work, on a GPU also beside the next step, largest over ranks", rows,
              &StepRow::time_optimizer),
       column("time_offload_wait", "s",
              "The host with the offloaded part of the optimizer and its transfers, largest over "
              "ranks",
              rows, &StepRow::time_offload_wait)}};
  if (t.exact_differences) {
    group.columns.push_back(
        column("time_agreement", "s",
               "Ranks agreeing on the sizes of exact differences, largest over ranks", rows,
               &StepRow::time_agreement));
  }
  return group;
}

Group evaluations(const TraceData& t) {
  const auto& rows = t.evaluations;
  return {"evaluations",
          {{"cut_off", t.evaluation_cut_off}},
          {column("step", "steps", "Steps before it, those of earlier runs included", rows,
                  &EvaluationRow::step),
           column("loss", "nats per token", "On held-out data", rows, &EvaluationRow::loss),
           column("bits_per_byte", "bits per byte", "Of it; NaN where tokens are no bytes", rows,
                  &EvaluationRow::bits_per_byte),
           column("batches", "micro-batches", "Of one rank", rows, &EvaluationRow::batches)}};
}

Group collectives(const TraceData& t) {
  const auto& rows = t.collectives;
  using Row = CollectiveRow;
  return {
      "collectives",
      {},
      {column("operation", "", "all_gather, reduce_scatter, ...", rows, &Row::operation),
       column("purpose", "", "Which traffic of the engine", rows, &Row::purpose),
       column("phase", "", "initial, forward, backward, update, evaluation", rows, &Row::phase),
       column("algorithm", "", "That ran", rows, &Row::algorithm),
       column("codec", "", "That ran", rows, &Row::codec),
       column("group", "", "Communicator", rows, &Row::group),
       column("path", "", "fused or composed, where a reduction re-encodes", rows, &Row::path),
       column("modelled", "bool", "1: the vendor's route; bytes are those of a ring, not counted",
              rows, [](const Row& row) { return flag(row.modelled); }),
       column("calls", "calls", "Of one rank", rows, &Row::calls),
       column("logical_bytes", "bytes", "Uncompressed bytes delivered, sum over ranks", rows,
              &Row::logical_bytes),
       column("wire_bytes_intra", "bytes", "Sent inside nodes, sum over ranks", rows,
              &Row::wire_bytes_intra),
       column("wire_bytes_inter", "bytes", "Sent across nodes, sum over ranks", rows,
              &Row::wire_bytes_inter),
       column("seconds", "s", "In start and finish, largest over ranks", rows, &Row::seconds)}};
}

Group timers(const TraceData& t) {
  const auto& rows = t.timers;
  return {"timers",
          {},
          {column("rank", "", "Rank", rows, &TimerRow::rank),
           column("category", "", "Kind of work", rows, &TimerRow::category),
           column("seconds", "s", "Exclusive wall time of the training loop", rows,
                  &TimerRow::seconds)}};
}

Group counters(const TraceData& t) {
  const auto& rows = t.counters;
  using Entry = std::map<std::string, std::uint64_t>::value_type;
  return {"counters",
          {},
          {column("name", "", "Named total", rows, [](const Entry& entry) { return entry.first; }),
           column("value", "1", "Sum over ranks", rows,
                  [](const Entry& entry) { return entry.second; })}};
}

Group memory(const TraceData& t) {
  const auto& rows = t.memory;
  return {
      "memory",
      {},
      {column("name", "", "Kind of state", rows, &MemoryRow::name),
       column("bytes_predicted", "bytes", "Of rank 0, in closed form", rows,
              &MemoryRow::bytes_predicted),
       column("bytes_actual", "bytes", "Of rank 0, allocated", rows, &MemoryRow::bytes_actual)}};
}

Group errors(const TraceData& t) {
  const auto& rows = t.errors;
  return {
      "errors",
      {{"interval", t.error_interval}},
      {column("step", "steps", "Steps before it, those of earlier runs included", rows,
              &ErrorRow::step),
       column("kind", "", "weights or gradients", rows, &ErrorRow::kind),
       column("unit_kind", "", "Of units of this kind", rows, &ErrorRow::unit_kind),
       column("relative_l2", "1", "Norm of the error over that of the exact values", rows,
              &ErrorRow::relative_l2),
       column("cosine", "1", "Of the angle between used and exact values", rows, &ErrorRow::cosine),
       column("largest", "1", "Largest error over the largest exact value, of magnitudes", rows,
              &ErrorRow::largest),
       column("norm_ratio", "1", "Norm of the used values over that of the exact ones", rows,
              &ErrorRow::norm_ratio)}};
}

Group codecs(const TraceData& t) {
  const auto& rows = t.codecs;
  return {"codecs",
          {},
          {column("step", "steps", "Steps before the first with them, earlier runs' included", rows,
                  &CodecRow::step),
           column("unit", "", "Index in /units", rows, &CodecRow::unit),
           column("weights", "", "Of its gathers over all ranks; none without qwZ", rows,
                  &CodecRow::weights),
           column("gradients_intra", "", "Of the first hop of its reductions; none without qgZ",
                  rows, &CodecRow::gradients_intra),
           column("gradients_inter", "", "Of their second hop", rows, &CodecRow::gradients_inter)}};
}

Group weight_copies(const TraceData& t) {
  return {"weight_copies",
          {{"found", t.copies_found}},
          {column("hash", "",
                  "SHA-256 of the copy of the weights that a node holds, by node; below stage 3 "
                  "that a rank holds, by rank",
                  t.copies, [](const std::string& hash) { return hash; })}};
}

Group exact_differences(const TraceData& t) {
  const auto& rows = t.exact;
  return {"exact_differences",
          {},
          {column("step", "steps", "Steps before the exchange, those of earlier runs included",
                  rows, &ExactRow::step),
           column("unit", "", "Index in /units", rows, &ExactRow::unit),
           column("width", "bits",
                  "Of the code of a weight; 0: nothing differs, 16: the weights go as they are",
                  rows, &ExactRow::width),
           column("escapes", "elements", "Room of an image for weights beside the codes", rows,
                  &ExactRow::escapes)}};
}

Group adaptive_bits(const TraceData& t) {
  const auto& rows = t.widths;
  return {"adaptive_bits",
          {{"budget_bytes", t.width_budget}},
          {column("step", "steps",
                  "Steps before the one after which it was chosen, earlier runs' included", rows,
                  &WidthRow::step),
           column("unit", "", "Index in /units", rows, &WidthRow::unit),
           column("bits", "bits", "Of an integer codec", rows, &WidthRow::bits),
           column("error", "1", "Sum of squares of what they would lose of the unit", rows,
                  &WidthRow::error),
           column("bytes", "bytes", "That the unit sends with them in a step, sum over ranks", rows,
                  &WidthRow::bytes),
           column("chosen", "bool", "1: from the next step on", rows, &WidthRow::chosen)}};
}

Group checkpoints(const TraceData& t) {
  const auto& rows = t.checkpoints;
  using Row = CheckpointRow;
  return {
      "checkpoints",
      {},
      {column("step", "steps", "Steps that it is after, earlier runs' included", rows, &Row::step),
       column("bytes", "bytes", "Of arrays, sum over ranks", rows, &Row::bytes),
       column("time_paused", "s", "Training waited for it, largest over ranks", rows,
              &Row::time_paused),
       column("time_writing", "s", "Files were written, digested and flushed, largest over ranks",
              rows, &Row::time_writing)}};
}

}  // namespace

std::size_t Column::size() const {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

Group describe_data(const std::string& name, const DataInfo& d) {
  return {name,
          {{"source", d.source},
           {"train_tokens", d.train_tokens},
           {"held_out_tokens", d.held_out_tokens},
           {"vocab_size", d.vocab_size},
           {"unigram_entropy_bits", d.unigram_entropy_bits},
           {"source_entropy_bits", d.source_entropy_bits}},
          {}};
}

Document describe_run(const TraceData& trace) {
  Document document{root_attributes(trace), {environment(trace), ranks(trace)}};
  if (trace.backend == "cuda") document.groups.push_back(gpus(trace));
  return document;
}

Document describe(const TraceData& trace) {
  Document document = describe_run(trace);
  for (Attribute& attribute : training_attributes(trace)) {
    document.attributes.push_back(std::move(attribute));
  }
  for (Group& group :
       std::vector<Group>{units(trace), tensors(trace), layers(trace), steps(trace),
                          evaluations(trace), collectives(trace), timers(trace), counters(trace),
                          memory(trace), describe_data("data", trace.data)}) {
    document.groups.push_back(std::move(group));
  }
  if (trace.error_interval > 0) document.groups.push_back(errors(trace));
  if (!trace.copies.empty()) document.groups.push_back(weight_copies(trace));
  if (!trace.codecs.empty()) document.groups.push_back(codecs(trace));
  if (trace.exact_differences) document.groups.push_back(exact_differences(trace));
  if (trace.width_budget > 0) document.groups.push_back(adaptive_bits(trace));
  if (trace.saves) document.groups.push_back(checkpoints(trace));
  return document;
}

}  // namespace zeropp::trace
