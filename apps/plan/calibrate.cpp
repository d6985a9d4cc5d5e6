// zpp_plan calibrate FILE...: a cluster file with the rates that were measured.
#include "lib/plan/calibrate.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "apps/plan/commands.hpp"
#include "apps/plan/measured_trace.hpp"
#include "lib/app/app.hpp"
#include "lib/base/error.hpp"
#include "lib/config/json.hpp"
#include "lib/trace/sinks/h5_reader.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::plan {

namespace {

struct Request {
  std::string base;  ///< the cluster file that keeps what was not measured
  std::string file;  ///< that is written
  std::string name;
  std::vector<std::string> measurements;
};

std::vector<config::Option> options(Request& request) {
  return {{.path = "plan.cluster",
           .flag = "--cluster",
           .field = &request.base,
           .help = "Cluster file to begin with: what the measurements do not tell stays"},
          {.path = "plan.calibrated",
           .flag = "--calibrated",
           .field = &request.file,
           .help = "Cluster file to write"},
          {.path = "plan.cluster_name",
           .flag = "--cluster-name",
           .field = &request.name,
           .help = "Its name; empty: as before"}};
}

void check(const Request& request) {
  for (const auto& [flag, value] :
       {std::pair{"--cluster", &request.base}, std::pair{"--calibrated", &request.file}}) {
    if (!value->empty()) continue;
    throw Error(ExitCode::usage, fmt::format("{} is missing: zpp_plan calibrate FILE... --cluster "
                                             "BASE.json --calibrated RESULT.json",
                                             flag));
  }
  if (request.measurements.empty()) {
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
  Cluster cluster = read_cluster(request.base);
  cluster.source.clear();
  if (!request.name.empty()) cluster.name = request.name;
  for (const std::string& file : request.measurements) {
    calibrate(cluster, read_measured(file), file);
  }
  const nlohmann::json made = to_json(cluster);
  (void)parse_cluster(made.dump(), request.file);  // what is written can be read
  trace::write_json(made, request.file);
  fmt::print("{}\n", request.file);
  return ExitCode::ok;
}

}  // namespace

int run_calibrate(int argc, char** argv) {
  Request request;
  std::vector<char*> flags{argv[0]};
  int at = 1;
  for (; at < argc && argv[at][0] != '-'; ++at) request.measurements.emplace_back(argv[at]);
  flags.insert(flags.end(), argv + at, argv + argc);
  const int count = static_cast<int>(flags.size());
  flags.push_back(nullptr);
  app::App app{.name = "plan", .summary = summary_of("calibrate"), .options = options(request)};
  app.resolve = [&](const std::vector<config::Option>&, const config::Machine&) { check(request); };
  app.run_alone = [&](const app::Call& call) { return calibrate_cluster(request, call); };
  return app::run(std::move(app), count, flags.data());
}

}  // namespace zeropp::plan
