#include "apps/converge/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/converge/bits.hpp"
#include "apps/converge/levels.hpp"
#include "apps/converge/quadratic_bound.hpp"
#include "lib/app/registries.hpp"
#include "lib/base/checked.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::converge {

namespace {

/// The nodes of a run's ranks: declared, or those of the team, which are the first of.
comm::Topology topology_of(const RunRanks& ranks, const comm::Topology& job) {
  const int size = checked<int>(ranks.ranks, "ranks of a run");
  const int node_size = checked<int>(ranks.node_size, "node size");
  if (ranks.virtual_ranks > 0) {
    return comm::virtual_topology(checked<int>(ranks.virtual_ranks, "virtual ranks"), node_size);
  }
  if (node_size > 0) return comm::declared_topology(size, node_size);
  if (job.node_count == 1) return {size, 1, size, false};
  if (size == job.world_size) return job;
  throw Error(ExitCode::usage,
              fmt::format("{} of {} ranks on {} nodes have no nodes of their own: declare "
                          "zeropp.node_size",
                          size, job.world_size, job.node_count));
}

/// Calls read(); an Error that it throws gets the name of the setting before its message.
template <class Read>
void named(const Setting& setting, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("setting {}: {}", setting.name, error.what()));
  }
}

std::unique_ptr<RunConfig> read_config(const Setting& setting, std::uint64_t seed) {
  auto made = std::make_unique<RunConfig>();
  made->options = config::options(made->config);
  named(setting, [&] {
    const auto ignored = config::read_object(setting.config, "configuration", made->options);
    if (!ignored.empty()) {
      throw Error(ExitCode::usage, config::ignored_line(ignored) + ": leave them out of a matrix");
    }
  });
  named(setting, [&] {
    const checkpoint::Options& asked = made->config.checkpoint;
    if (asked.save.empty() && asked.load.empty() && asked.weights.empty()) return;
    throw Error(ExitCode::usage,
                "a matrix keeps its runs as they end, and has no checkpoints: leave "
                "zeropp.checkpoint out");
  });
  made->config.seed = seed;
  return made;
}

/// Text on error feedback in an effective configuration, which names it where it is on.
std::string feedback_of(const std::string& config_json) {
  using nlohmann::json;
  const json none = {{"hops", "none"}};
  const json feedback = json::parse(config_json)["zeropp"].value("error_feedback", none);
  if (feedback["hops"] == "none") return "off";
  std::vector<std::string> parts;
  for (const auto& [key, value] : feedback.items()) {
    parts.push_back(
        fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

SettingRow row_of(const Setting& setting, const RunConfig& run, const comm::Topology& topology) {
  const config::TrainConfig& c = run.config;
  const auto codec = [&](bool on, const codec::CodecSpec& spec, zero::AdaptedValues values,
                         std::optional<codec::CodecSpec> zero::CodecEntry::*member) {
    if (!on) return std::string("none");
    if (c.zero.adaptive_bits.values == values) return std::string("adaptive");
    const bool scheduled = std::ranges::any_of(
        c.zero.codec_schedule,
        [&](const zero::CodecEntry& entry) { return (entry.*member).has_value(); });
    return scheduled ? std::string("schedule") : codec::to_string(spec);
  };
  const bool qgz = c.zero.quantized_gradients;
  using Entry = zero::CodecEntry;
  return {
      .name = setting.name,
      .level = setting.level,
      .model = fmt::format("{} {}x{}", c.model.name, c.model.num_layers, c.model.hidden_size),
      .stage = static_cast<std::uint64_t>(c.zero.stage),
      .weight_codec = codec(c.zero.quantized_weights, c.zero.weight_codec,
                            zero::AdaptedValues::weights, &Entry::weight_codec),
      .gradient_codec_intra = codec(qgz, c.zero.gradient_codec_intra,
                                    zero::AdaptedValues::gradients, &Entry::gradient_codec_intra),
      .gradient_codec_inter = codec(qgz, c.zero.gradient_codec_inter,
                                    zero::AdaptedValues::gradients, &Entry::gradient_codec_inter),
      .reduce_scatter = c.zero.reduce_scatter_algorithm,
      .hpz = c.zero.hpz_partition_size,
      .feedback = feedback_of(config::canonical_json(run.options)),
      .optimizer = c.optimizer.type,
      .weight_bits = weight_bits(c),
      .gradient_bits = gradient_bits(c, topology),
      .baseline = setting.baseline,
      .config_json = config::canonical_json(run.options)};
}

/// Whether a setting asks for GPUs that are not there: only contracts compare back ends, and a row
/// of them may be missing.
bool lacks_gpu(const Setting& setting, const RunConfig& run, const app::Context& context) {
  return setting.level == kContract && run.config.backend == Backend::cuda &&
         !context.gpus.every_rank;
}

/// NCCL reads once in a process what its nodes are: all runs over it have to declare the same.
void require_one_node_size(const config::TrainConfig& config,
                           std::optional<std::size_t>& over_nccl) {
  if (config.transport != comm::Transport::nccl ||
      over_nccl.value_or(config.node_size) == config.node_size) {
    over_nccl = config.transport == comm::Transport::nccl ? config.node_size : over_nccl;
    return;
  }
  throw Error(ExitCode::usage,
              fmt::format("zeropp.node_size {} over NCCL, where a setting before it has {}: NCCL "
                          "reads nodes once in a process; make two matrices of them",
                          config.node_size, *over_nccl));
}

/// Ranks of a team of `team` that take part in a run of `setting`.
std::size_t ranks_of(const Setting& setting, std::size_t team) {
  if (setting.ranks <= team) return setting.ranks == 0 ? team : setting.ranks;
  throw Error(ExitCode::usage,
              fmt::format("takes {} ranks, and a team has {}: start more, or give --ranks-per-run",
                          setting.ranks, team));
}

RunRanks run_ranks_of(const Setting& setting, const config::TrainConfig& config, std::size_t team) {
  const RunRanks ranks{ranks_of(setting, team), config.virtual_ranks, config.node_size};
  if (ranks.virtual_ranks == 0 || ranks.ranks == 1) return ranks;
  throw Error(ExitCode::usage,
              fmt::format("zeropp.virtual_ranks {} are of one process, and a run has {} ranks: "
                          "give --ranks-per-run 1",
                          ranks.virtual_ranks, ranks.ranks));
}

/// Whether the runs of one setting are compared with those of the other.
bool are_compared(const SettingRow& one, const SettingRow& other) {
  return one.baseline == other.name || other.baseline == one.name;
}

/// Sets trained_as. Runs of a contract are all trained, and so is a setting beside a baseline that
/// equals it: that they do not differ is what they show.
void find_equal_trainings(Plan& plan) {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    StudyRun& run = plan.runs[i];
    const SettingRow& row = plan.rows[run.setting];
    run.trained_as = i;
    if (row.level == kContract) continue;
    const std::size_t same = first.try_emplace(training_of(plan, run), i).first->second;
    if (!are_compared(row, plan.rows[plan.runs[same].setting])) run.trained_as = same;
  }
}

/// Refuses a run that is compared by its held-out loss and never evaluates.
void require_evaluations(const config::TrainConfig& config, const std::string& level) {
  if (config.evaluation_interval > 0) return;
  throw Error(ExitCode::usage,
              fmt::format("zeropp.evaluation_interval is 0, and level {} compares held-out losses: "
                          "set it to the steps between evaluations",
                          level));
}

}  // namespace

std::unique_ptr<RunConfig> configure(const Setting& setting, std::uint64_t seed,
                                     const app::Context& context, const comm::Topology& topology) {
  auto made = read_config(setting, seed);
  named(setting, [&] {
    config::resolve(made->config, made->options, app::machine_of(topology, context.gpus));
    if (setting.level == kQuadratic) require_plain_descent(made->config);
    if (compares_held_out_loss(setting.level)) require_evaluations(made->config, setting.level);
  });
  return made;
}

std::string training_of(const Plan& plan, const StudyRun& run) {
  const SettingRow& row = plan.rows[run.setting];
  nlohmann::json config = nlohmann::json::parse(row.config_json);
  config["zeropp"].erase("seed");  // the setting's first; the run's own is beside it
  return fmt::format("{} seed {} ranks {} {}", row.level, run.seed, run.ranks.ranks, config.dump());
}

std::size_t equal_trainings(const Plan& plan) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) count += plan.runs[i].trained_as != i ? 1 : 0;
  return count;
}

Plan make_plan(const Matrix& matrix, const app::Context& context, std::size_t team) {
  Plan plan;
  std::optional<std::size_t> nodes_of_nccl;
  for (const Setting& setting : matrix.settings) {
    const auto asked = read_config(setting, setting.seeds.front());
    if (lacks_gpu(setting, *asked, context)) {
      plan.left_out.push_back(setting.name);
      continue;
    }
    StudyRun planned{.setting = plan.settings.size(), .ranks = {}};
    comm::Topology topology;
    named(setting, [&] {
      planned.ranks = run_ranks_of(setting, asked->config, team);
      topology = topology_of(planned.ranks, context.topology());
      planned.ranks_per_node = static_cast<std::size_t>(topology.ranks_per_node);
    });
    const auto run = configure(setting, setting.seeds.front(), context, topology);
    named(setting, [&] { require_one_node_size(run->config, nodes_of_nccl); });
    plan.rows.push_back(row_of(setting, *run, topology));
    plan.data.push_back(run->config.data);
    for (const std::uint64_t seed : setting.seeds) {
      planned.seed = seed;
      plan.runs.push_back(planned);
    }
    plan.settings.push_back(setting);
  }
  find_equal_trainings(plan);
  std::ranges::copy_if(matrix.checks, std::back_inserter(plan.checks), [&](const Check& check) {
    return std::ranges::all_of(std::vector{check.first, check.second}, [&](const auto& name) {
      return std::ranges::find(plan.left_out, name) == plan.left_out.end();
    });
  });
  return plan;
}

}  // namespace zeropp::converge
