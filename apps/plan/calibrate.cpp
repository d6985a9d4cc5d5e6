// zpp_plan calibrate FILE...: a cluster file with the rates that were measured. With --gpu it also
// writes the file of a cluster that nobody measured.
#include "lib/plan/calibrate.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "apps/plan/cluster_source.hpp"
#include "apps/plan/commands.hpp"
#include "apps/plan/job.hpp"
#include "apps/plan/measured_trace.hpp"
#include "lib/app/app.hpp"
#include "lib/base/error.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/config/json.hpp"
#include "lib/trace/sinks/h5_reader.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::plan_app {

namespace {

struct Request {
  ClusterSource base;                              ///< of what was not measured
  std::size_t gpus_per_node = kUsualRanksPerNode;  ///< of sold GPUs
  std::string file;                                ///< that is written
  std::string name;
  std::vector<std::string> measurements;
};

std::vector<config::Option> options(Request& request) {
  std::vector<config::Option> table = options(request.base);
  table.push_back({.path = "plan.gpus_per_node",
                   .flag = "--gpus-per-node",
                   .field = &request.gpus_per_node,
                   .help = "GPUs of a node, where --gpu names them",
                   .range = config::between(1, 4096),
                   .in_effect = [&request] { return !request.base.gpu.empty(); },
                   .effect_needs = "--gpu"});
  table.push_back({.path = "plan.calibrated",
                   .flag = "--calibrated",
                   .field = &request.file,
                   .help = "Cluster file to write"});
  table.push_back({.path = "plan.cluster_name",
                   .flag = "--cluster-name",
                   .field = &request.name,
                   .help = "Name of the cluster; empty: as before"});
  return table;
}

void check(const Request& request, const std::vector<config::Option>& given) {
  for (const auto& [flag, missing] : {std::pair{"--cluster", !request.base.is_named()},
                                      std::pair{"--calibrated", request.file.empty()}}) {
    if (!missing) continue;
    throw Error(ExitCode::usage, fmt::format("{} is missing: zpp_plan calibrate FILE... --cluster "
                                             "BASE.json --calibrated RESULT.json, or --gpu and "
                                             "--node-gbit instead of --cluster",
                                             flag));
  }
  check(request.base, given);
  config::check_effects(given);
  if (request.measurements.empty() && request.base.gpu.empty()) {
    throw Error(ExitCode::usage,
                "no measurement: zpp_plan calibrate FILE... with the trace or JSON of "
                "zpp_kernels or zpp_sweep, or what bench_rails wrote");
  }
}

nlohmann::json read_measured(const std::string& file) {
  if (trace::is_hdf5(file)) return read_measured_trace(file);
  const std::string text =
      config::read_config_text(file, "the measurement", "the names after calibrate");
  return config::parse_object(text, file);
}

ExitCode calibrate_cluster(const Request& request, const app::Call& call) {
  refuse_output(call);
  refuse_json(call);
  plan::Cluster cluster = read(request.base, request.gpus_per_node);
  if (request.base.gpu.empty()) {
    cluster.source.clear();
  } else if (!request.measurements.empty()) {
    cluster.source = "as sold, but for what was measured";
  }
  if (!request.name.empty()) cluster.name = request.name;
  for (const std::string& file : request.measurements) {
    plan::calibrate(cluster, read_measured(file), file);
  }
  const nlohmann::json made = plan::to_json(cluster);
  (void)plan::parse_cluster(made.dump(), request.file);  // what is written can be read
  trace::write_json(made, request.file, 2);              // people edit it
  standard_output::print("{}\n", request.file);
  return ExitCode::ok;
}

}  // namespace

std::vector<std::string> calibrate_flags() { return flags_for<Request>(); }

int run_calibrate(int argc, char** argv) {
  Request request;
  std::vector<char*> flags{argv[0]};
  int at = 1;
  for (; at < argc && argv[at][0] != '-'; ++at) request.measurements.emplace_back(argv[at]);
  flags.insert(flags.end(), argv + at, argv + argc);
  const int count = static_cast<int>(flags.size());
  flags.push_back(nullptr);
  app::App app{.name = "plan", .options = options(request)};
  describe(app, "calibrate");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    check(request, given);
  };
  app.run_alone = [&](const app::Call& call) { return calibrate_cluster(request, call); };
  return app::run(std::move(app), count, flags.data());
}

}  // namespace zeropp::plan_app
