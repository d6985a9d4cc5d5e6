// zpp_plan time: how long a step of one configuration takes on a cluster.
#include <fmt/format.h>

#include <cstdio>

#include "apps/plan/cluster_job.hpp"
#include "apps/plan/commands.hpp"
#include "apps/plan/time_outputs.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/units.hpp"
#include "lib/data/token_source.hpp"

namespace zeropp::plan_app {

namespace {

void warn_of_memory(const plan::PlannedRun& run, const plan::Cluster& cluster) {
  const auto needed = static_cast<double>(plan::device_bytes(run.memory()));
  if (needed <= cluster.gpu.memory) return;
  log::warn(
      fmt::format("a rank needs {:.1f} GiB, and a GPU of {} has {:.1f}: this does not run there; "
                  "zpp_plan search finds what fits",
                  needed / kGibibyte, cluster.name, cluster.gpu.memory / kGibibyte));
}

ExitCode time_job(const ClusterJob& asked, const comm::Topology& topology, const app::Call& call) {
  const app::OutputLock lock = app::preflight_outputs(call);
  const config::TrainConfig& config = asked.job.config;
  plan::PlannedRun run(config, topology, data::vocab_size(config.data));
  run.plan_step(asked.job.step);
  const plan::StepTime time = plan::step_time(run, asked.cluster);
  warn_of_memory(run, asked.cluster);
  warn_of_limit(run);
  warn_of_hpz(run);
  std::string text = to_text(run, asked.cluster, time);
  text += assumptions_text(asked.job, call.options()) + limits_text(run, "a step", call.options());
  standard_output::write(text);
  trace::TraceData head = app::run_trace(call);
  head.seed = config.seed;
  const trace::Document document = to_document(run, asked.cluster, time, head);
  app::write_outputs(call, lock, document);
  return ExitCode::ok;
}

}  // namespace

int run_time(int argc, char** argv) {
  ClusterJob asked;
  comm::Topology topology;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "time");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    require_cluster(asked, given);
    take_job(asked.job, given);
    topology = topology_on_cluster(asked, given);
    config::resolve(asked.job.config, given, machine_for(asked, topology));
  };
  app.run_alone = [&](const app::Call& call) { return time_job(asked, topology, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app
