// zpp_plan compare: what each part of ZeRO++, weight differences, hybrid sharding and lower stages
// save of a step of ZeRO-3, and whether that pays.
#include <fmt/format.h>

#include "apps/plan/commands.hpp"
#include "apps/plan/compare_outputs.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/error.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/units.hpp"
#include "lib/config/effects.hpp"

namespace zeropp::plan_app {

namespace {

/// Request that the command reads.
struct Request {
  ClusterJob on;
  double gain = 0.05;
  double memory_limit = 0;  ///< GiB of a rank; 0: nobody says
};

std::vector<config::Option> options(Request& asked) {
  std::vector<config::Option> table = options(asked.on);
  table.push_back(gain_option(asked.gain));
  table.push_back(memory_limit_option(asked.memory_limit));
  return table;
}

/// On the cluster where there is one.
comm::Topology topology_for(ClusterJob& asked, const std::vector<config::Option>& given) {
  const comm::Topology topology =
      asked.source.is_named() ? topology_on_cluster(asked, given) : topology_of(asked.job);
  require_several_nodes(topology,
                        "nothing leaves a node, and compare says what ZeRO++ saves of what does");
  return topology;
}

}  // namespace

std::vector<std::string> compare_flags() { return flags_for<Request>(); }

int run_compare(int argc, char** argv) {
  Request asked;
  comm::Topology topology;
  Variants variants;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "compare");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    take_cluster(asked.on, given);
    take_job(asked.on.job, given);
    if (config::is_given(given, "zeropp.shard_group_size")) {
      throw Error(ExitCode::usage,
                  "zeropp.shard_group_size (--shard-group-size): compare has rows of hybrid "
                  "sharding over the ranks of a node itself, and its other rows shard over all: "
                  "leave it out, or take zpp_plan time for groups of another size");
    }
    config::choose_automatic(given);  // once: variants are copies, which it does not reach
    topology = topology_for(asked.on, given);
    take_memory_limit(asked.memory_limit, asked.on, given);
    variants = variants_of(asked.on, topology, given, "compare");
  };
  app.run_alone = [&](const app::Call& call) {
    const app::OutputLock lock = app::preflight_outputs(call);
    const plan::Cluster* const cluster = asked.on.source.is_named() ? &asked.on.cluster : nullptr;
    const double memory = asked.memory_limit * kGibibyte;
    const Comparison made =
        compare(variants, topology, cluster, asked.on.job.step, asked.gain, memory);
    std::string text = to_text(
        made, {variants, topology, cluster, asked.gain, memory, is_of_deepspeed(call.options())});
    text += assumptions_text(asked.on.job, call.options());
    text += limits_text(planned(variants.features.front(), topology, asked.on.job.step), "ZeRO-3",
                        call.options());
    standard_output::write(text);
    trace::TraceData head = app::run_trace(call);
    head.seed = asked.on.job.config.seed;
    const trace::Document document = to_document(made, head);
    app::write_outputs(call, lock, document);
    return ExitCode::ok;
  };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app
