// zpp_plan estimate: bytes and memory of one configuration.
#include "lib/plan/estimate.hpp"

#include <cstdio>

#include "apps/plan/commands.hpp"
#include "apps/plan/estimate_outputs.hpp"
#include "apps/plan/job.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/data/token_source.hpp"

namespace zeropp::plan_app {

namespace {

ExitCode estimate_job(const Job& job, const comm::Topology& topology, const app::Call& call) {
  const app::OutputLock lock = app::preflight_outputs(call);
  plan::PlannedRun run(job.config, topology, data::vocab_size(job.config.data));
  run.plan_step(job.step);
  warn_of_limit(run);
  warn_of_hpz(run);
  const plan::Estimate made = plan::estimate(run);
  standard_output::write(to_text(run, made) + assumptions_text(job, call.options()) +
                         limits_text(run, "a step", call.options()));
  trace::TraceData head = app::run_trace(call);
  head.seed = job.config.seed;
  const trace::Document document = to_document(run, made, head);
  app::write_outputs(call, lock, document);
  return ExitCode::ok;
}

}  // namespace

int run_estimate(int argc, char** argv) {
  Job job;
  comm::Topology topology;
  app::App app{.name = "plan", .options = options(job), .config_flags = kConfigFlags};
  describe(app, "estimate");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    take_job(job, given);
    topology = topology_of(job);
    config::resolve(job.config, given, machine_for(topology));
  };
  app.run_alone = [&](const app::Call& call) { return estimate_job(job, topology, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app
