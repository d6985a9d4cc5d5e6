#include "apps/fabric/program.hpp"

#include <utility>

#include "apps/fabric/options.hpp"
#include "apps/fabric/survey.hpp"

namespace zeropp::fabric {

namespace {

ExitCode run_in(const Options& options, const app::Context& context) {
  bench::Run run(context, *options.backend, *options.transport);
  Stream stream;
  context.agree_on([&] { stream = run.device().make_stream("fabric"); });
  const comm::Groups groups = context.world().make_groups({.levels = true,
                                                           .device = run.device(),
                                                           .transport = *options.transport,
                                                           .rail_lanes = options.rail_lanes});
  return survey(options, run, groups, stream);
}

}  // namespace

int run(int argc, char** argv) {
  Options options;
  app::App app{.name = "fabric",
               .summary = "Measures every pair of ranks and every rail, and names what is slow",
               .examples = {"mpirun -n 8 zpp_fabric",
                            "mpirun -n 4 zpp_fabric --node-size 2 --json fabric.json"},
               .details =
                   "Latency and bandwidth are measured, and where GPUs, processors and "
                   "network interfaces lie\nis found. A rank, link or rail that is slow "
                   "beside its equals is named, and the exit code is 1;\nso the program "
                   "qualifies a machine before work starts. Mistakes of the placement are "
                   "printed\nand do not fail by themselves.",
               .options = option_table(options),
               .node_size = &options.node_size,
               .json_flags = "-J,--json,--output_file",
               .timeout_flags = "-T,--timeout"};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    resolve(options, given, machine);
  };
  app.run = [&](const app::Context& context) { return run_in(options, context); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::fabric
