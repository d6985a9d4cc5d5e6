#include "apps/plan/time_outputs.hpp"

#include <fmt/format.h>

#include "lib/base/units.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

using trace::column;

struct OpRow {
  const zero::Op* op;
  const plan::Span* span;
};

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds / kMilli); }

double exposed_on(const plan::Timeline& timeline, plan::Resource resource) {
  return timeline.exposed[static_cast<std::size_t>(resource)];
}

/// Tokens of all ranks in a step.
double tokens_per_step(const plan::PlannedRun& run) {
  return static_cast<double>(run.config().train_batch_size) *
         static_cast<double>(run.config().model.seq_length);
}

double share_of_peak(const plan::PlannedRun& run, const plan::Cluster& cluster,
                     const plan::StepTime& time) {
  return tokens_per_step(run) * run.model().flops_per_token /
         (time.seconds * static_cast<double>(run.topology().world_size) * cluster.gpu.peak);
}

trace::Group time_group(const plan::PlannedRun& run, const plan::Cluster& cluster,
                        const plan::StepTime& time) {
  const plan::Timeline& timeline = time.timeline;
  return {"time",
          {{"cluster", cluster.name},
           {"step_seconds", time.seconds},
           {"optimizer_seconds", time.optimizer},
           {"forward_seconds", time.forward},
           {"backward_seconds", time.backward},
           {"compute_seconds", time.compute},
           {"exposed_seconds", time.exposed},
           {"exposed_rails_seconds", exposed_on(timeline, plan::Resource::rails)},
           {"exposed_node_links_seconds", exposed_on(timeline, plan::Resource::node_links) +
                                              exposed_on(timeline, plan::Resource::copies)},
           {"tokens_per_second", tokens_per_step(run) / time.seconds},
           {"mfu", share_of_peak(run, cluster, time)},
           {"bound", std::string(time.bound)}},
          {}};
}

trace::Group timeline_group(const plan::StepTime& time) {
  std::vector<OpRow> rows;
  for (std::size_t i = 0; i < time.schedule.ops.size(); ++i) {
    rows.push_back({&time.schedule.ops[i], &time.timeline.spans[i]});
  }
  return {
      "timeline",
      {},
      {column("operation", "", "Of the schedule", rows,
              [](const OpRow& row) { return std::string(zero::name_of(row.op->kind)); }),
       column("index", "", "Unit, layer or bucket", rows,
              [](const OpRow& row) { return std::uint64_t{row.op->index}; }),
       column("stream", "", "On which it starts", rows,
              [](const OpRow& row) { return std::string(zero::name_of(row.op->stream)); }),
       column("begin", "s", "Of its start", rows, [](const OpRow& row) { return row.span->begin; }),
       column("started", "s", "Its start is done; later hops and decoding follow", rows,
              [](const OpRow& row) { return row.span->started; }),
       column("end", "s", "Its result is there", rows,
              [](const OpRow& row) { return row.span->end; })}};
}

}  // namespace

std::string to_text(const plan::PlannedRun& run, const plan::Cluster& cluster,
                    const plan::StepTime& time) {
  trace::TextTable table({"of a step", "ms"});
  table.add({"all", milliseconds(time.seconds)});
  table.add({"optimizer, before forward", milliseconds(time.optimizer)});
  table.add({"forward", milliseconds(time.forward)});
  const bool in_backward = run.config().zero.update_in_backward;
  table.add({in_backward ? "optimizer, beside backward" : "optimizer, beside forward",
             milliseconds(time.updates)});
  table.add({"backward", milliseconds(time.backward)});
  table.add({"forward and backward, without waits", milliseconds(time.compute)});
  table.add({"exposed", milliseconds(time.exposed)});
  return fmt::format(
      "{} on {}\n\n{}\n{:.0f} tokens/s per GPU, {:.1f} % of the peak, bound by {} ({:.0f} % of "
      "the step)\n",
      run.topology().describe(), cluster.name, table.str(),
      tokens_per_step(run) / time.seconds / static_cast<double>(run.topology().world_size),
      100 * share_of_peak(run, cluster, time), time.bound, 100 * time.bound_share);
}

trace::Document to_document(const plan::PlannedRun& run, const plan::Cluster& cluster,
                            const plan::StepTime& time, const trace::TraceData& head) {
  trace::Document document = trace::describe_run(head);
  document.groups.push_back(time_group(run, cluster, time));
  document.groups.push_back(timeline_group(time));
  return document;
}

}  // namespace zeropp::plan_app
