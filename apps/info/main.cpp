// zpp_info: what this build is, what it runs on, where each rank is placed, what can be chosen, and
// what a configuration of the trainer becomes here, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/info/option_table.hpp"
#include "kernels/codec/spec.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/app/app.hpp"
#include "lib/app/placement.hpp"
#include "lib/app/registries.hpp"
#include "lib/base/atomic_file.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/collective/collective.hpp"
#include "lib/comm/nccl_reports.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/deepspeed_reports.hpp"
#include "lib/config/options.hpp"
#include "lib/config/precision.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/device/runtime.hpp"
#include "lib/model/registry.hpp"
#include "lib/trace/sinks/json_sink.hpp"
#include "lib/trace/sinks/table.hpp"

namespace {

using nlohmann::json;
using namespace zeropp;

/// The entries of one registry of collectives.
template <class Algorithm>
json described(const std::vector<const Algorithm*>& entries) {
  json rows = json::array();
  for (const Algorithm* entry : entries) {
    rows.push_back({{"name", entry->name},
                    {"hierarchical", entry->traits.hierarchical},
                    {"any_codec", entry->traits.any_codec},
                    {"modelled", entry->traits.modelled},
                    {"deterministic", entry->traits.deterministic},
                    {"one_chunk", entry->traits.one_chunk},
                    {"summary", entry->summary}});
  }
  return rows;
}

/// Placement of every rank, as zpp_fabric finds it before it measures; on rank 0.
struct Placement {
  std::vector<app::RankPlace> ranks;
  std::vector<std::string> mistakes;
};

/// Collective. `on_host`: the host was asked for, and which GPUs the ranks see is no mistake.
Placement find_placement(const app::Context& context, bool on_host) {
  const std::vector<int>& gpus = context.gpus.index;
  const int own = on_host ? -1 : gpus.at(static_cast<std::size_t>(context.control().rank()));
  Placement placement;
  placement.ranks = app::gather_places(context, app::find_place(own, "/sys"));
  const bool on_gpus = !on_host && std::ranges::any_of(gpus, [](int gpu) { return gpu >= 0; });
  placement.mistakes = app::placement_mistakes(placement.ranks, on_gpus);
  return placement;
}

json describe(const app::Context& context, const Placement& placement) {
  const trace::Provenance p = context.provenance();
  const comm::Topology& t = context.topology();
  json info{{"schema", "zeropp-info"}, {"schema_version", "2.0"}};
  info["versions"] = {{"zeropp", p.version},        {"git_commit", p.git_commit},
                      {"git_dirty", p.git_dirty},   {"build_type", p.build_type},
                      {"compiler", p.cxx_compiler}, {"mpi", p.mpi_library},
                      {"hdf5", p.hdf5_version},     {"kokkos", p.kokkos_version},
                      {"blas", p.blas_library},     {"cuda", p.cuda_versions}};
  info["gpus"] = json::array();
  for (const GpuInfo& gpu : visible_gpus()) {
    info["gpus"].push_back({{"name", gpu.name},
                            {"uuid", gpu.uuid},
                            {"pci", gpu.pci},
                            {"compute_capability", gpu.compute_capability},
                            {"memory", gpu.memory}});
  }
  info["topology"] = {{"world_size", t.world_size},
                      {"node_count", t.node_count},
                      {"ranks_per_node", t.ranks_per_node},
                      {"emulated", t.emulated},
                      {"description", t.describe()}};
  info["placement"] = app::placement_json(placement.ranks);
  info["mistakes"] = placement.mistakes;
  info["codecs"] = json::array();
  for (const auto& format : codec::formats()) {
    info["codecs"].push_back({{"name", format.name},
                              {"bits", format.bits},
                              {"scale_bytes", format.scale_bytes},
                              {"scales_images", format.scales_images},
                              {"default_block", format.default_block},
                              {"minimum_block", format.minimum_block},
                              {"maximum_block", format.maximum_block},
                              {"summary", format.summary}});
  }
  info["all_gather"] = described(collective::all_gather_algorithms());
  info["reduce_scatter"] = described(collective::reduce_scatter_algorithms());
  info["configuration"] = json::parse(context.config_json());
  info["options"] = zeropp::info::option_table();
  info["option_groups"] = zeropp::info::option_groups();
  info["deepspeed_reports"] = json::array();
  for (const config::DeepSpeedReport& report : config::deepspeed_reports()) {
    info["deepspeed_reports"].push_back({{"setting", report.setting},
                                         {"seen", report.seen},
                                         {"versions", report.versions},
                                         {"threads", report.threads},
                                         {"needs", report.needs.text()}});
  }
  info["nccl_reports"] = json::array();
  for (const comm::NcclReport& report : comm::nccl_reports()) {
    info["nccl_reports"].push_back(
        {{"first", nccl_version_text(report.first)},
         {"fixed", report.fixed == 0 ? json() : json(nccl_version_text(report.fixed))},
         {"thread", report.thread},
         {"seen", report.seen},
         {"remedy", report.remedy},
         {"here", comm::concerns(report, nccl_version())}});
  }
  info["models"] = json::array();
  for (const auto name : model::model_names()) info["models"].push_back({{"name", name}});
  info["optimizers"] = json::array();
  for (const auto* entry : optim::rules()) {
    info["optimizers"].push_back(
        {{"name", entry->info.name},
         {"parameters", fmt::to_string(fmt::join(entry->info.parameters, ", "))},
         {"summary", entry->info.summary}});
  }
  info["token_sources"] = json::array();
  for (const auto name : data::source_names()) info["token_sources"].push_back({{"name", name}});
  return info;
}

std::string cell(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_placement(const app::Context& context, const Placement& placement) {
  std::vector<std::string> header = app::placement_columns();
  header.front() = "placement: " + header.front();
  trace::TextTable table(header);
  for (auto& row : app::placement_rows(placement.ranks, context.world().local_ranks())) {
    table.add(std::move(row));
  }
  standard_output::print("{}", table.str());
  for (const std::string& mistake : placement.mistakes)
    standard_output::print("MISTAKE: {}\n", mistake);
  standard_output::print("\n");
}

/// Reports of faults that the NCCL here has.
void print_nccl_reports() {
  const int version = nccl_version();
  for (const comm::NcclReport& report : comm::nccl_reports()) {
    if (!comm::concerns(report, version)) continue;
    standard_output::print(
        "NCCL {}: {} ({}{}): {}\n", nccl_version_text(version), report.seen, report.thread,
        report.fixed == 0 ? "" : ", fixed in " + nccl_version_text(report.fixed), report.remedy);
  }
}

void print_pairs(const json& info, const char* section) {
  trace::TextTable table({section, ""});
  for (const auto& [key, value] : info[section].items()) table.add({key, cell(value)});
  standard_output::print("{}\n", table.str());
}

void print_registries(const json& info) {
  // The keys of JSON objects are sorted; a table reads better with the name first.
  for (const auto& [section, keys] :
       std::initializer_list<std::pair<const char*, std::vector<std::string>>>{
           {"gpus", {"uuid", "pci", "compute_capability", "memory"}},
           {"codecs",
            {"bits", "scale_bytes", "default_block", "minimum_block", "maximum_block", "summary"}},
           {"all_gather",
            {"hierarchical", "any_codec", "modelled", "deterministic", "one_chunk", "summary"}},
           {"reduce_scatter",
            {"hierarchical", "any_codec", "modelled", "deterministic", "one_chunk", "summary"}},
           {"models", {}},
           {"optimizers", {"parameters", "summary"}},
           {"token_sources", {}}}) {
    std::vector<std::string> header{section};
    header.insert(header.end(), keys.begin(), keys.end());
    trace::TextTable table(header);
    for (const auto& entry : info[section]) {
      std::vector<std::string> row{cell(entry["name"])};
      for (const auto& key : keys) row.push_back(cell(entry[key]));
      table.add(std::move(row));
    }
    standard_output::print("{}\n", table.str());
  }
}

void print_configuration(const std::vector<config::Option>& options) {
  trace::TextTable table({"configuration", "", "flag"});
  for (const auto& option : options) {
    if (option.in_effect && !option.in_effect()) continue;
    table.add({option.path, cell(config::value_of(option)), option.flag});
  }
  standard_output::print("{}\n", table.str());
}

/// The ranks of one node that a configuration asks for, by its groups or its batch; 1: any.
std::size_t ranks_asked_for(const config::TrainConfig& config) {
  const std::size_t group = config.zero.shard_group_size;
  std::size_t ranks = std::max<std::size_t>(1, config.zero.hpz_partition_size);
  if (group != zero::kAllRanks && group != zero::kNodeOfShards) ranks = std::max(ranks, group);
  const std::size_t of_rank = config.train_micro_batch_size_per_gpu *
                              std::max<std::size_t>(1, config.gradient_accumulation_steps);
  return of_rank == 0 ? ranks : std::max(ranks, config.train_batch_size / of_rank);
}

/// Resolves for the ranks here. One rank shows what a configuration of more ranks becomes on
/// theirs, and says so.
void resolve_here(config::TrainConfig& config, const std::vector<config::Option>& given,
                  const config::Machine& machine) {
  const config::TrainConfig asked = config;
  const std::size_t ranks = ranks_asked_for(asked);
  try {
    config::resolve(config, given, machine);
  } catch (const Error& error) {
    if (machine.world_size > 1 || ranks == 1) throw;
    config::Machine other = machine;
    other.world_size = other.ranks_per_node = checked<int>(ranks, "ranks");
    config = asked;
    config::resolve(config, given, other);
    log::warn(
        fmt::format("shown as on {} ranks of one node, for here is one: {}", ranks, error.what()));
  }
}

void write(const json& info, const std::filesystem::path& path) {
  preflight_write(path, 0);
  trace::write_json(info, path);
}

}  // namespace

int main(int argc, char** argv) {
  config::TrainConfig config;
  bool on_host = false;  // asked for
  app::App app{
      .name = "info",
      .summary = "Prints versions, placement, what can be chosen, and what a configuration becomes",
      .examples = {"zpp_info --config-keys",
                   "mpirun -n 4 zpp_info --config inputs/demo.json --node-size 2"},
      .options = config::options(config),
      .groups = config::option_groups(),
      .common_flags = config::common_flags(),
      .node_size = &config.node_size,
      .config_flags = "--config,--deepspeed_config"};
  app.answers = {
      {.flag = "--config-keys",
       .help = "Print every key of a configuration file and what it means here, and exit",
       .text = [&] { return config::describe_keys(config::options(config)); }}};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    on_host = config.backend == Backend::host;
    resolve_here(config, given, machine);
  };
  app.run = [&](const app::Context& context) {
    const Placement placement = find_placement(context, on_host);
    const json info = describe(context, placement);
    if (context.is_root()) {
      if (const auto line = config::open_precision_line(context.options()); !line.empty()) {
        log::warn(line);
      }
      print_pairs(info, "topology");
      print_placement(context, placement);
      print_configuration(context.options());
      print_pairs(info, "versions");
      print_nccl_reports();
      print_registries(info);
    }
    context.agree_on([&] {
      if (!context.is_root()) return;
      if (context.output) write(info, *context.output / "info.json");
      if (context.json) write(info, *context.json);
    });
    return ExitCode::ok;
  };
  return app::run(std::move(app), argc, argv);
}
