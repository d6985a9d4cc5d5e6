#include "apps/plan/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/config/options.hpp"
#include "lib/plan/hf_config.hpp"
#include "lib/plan/model_presets.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/zero/plan/hpz_use.hpp"

namespace zeropp::plan_app {

namespace {
constexpr double kMostRanks = std::numeric_limits<int>::max();
/// Every rank of a node is planned, and every layer.
constexpr double kMostRanksPerNode = 4096;
constexpr std::size_t kMostLayers = 100'000;

void take_sizes(model::Options& model, const model::Options& named,
                const std::vector<config::Option>& given) {
  const auto take = [&](const char* path, auto member) {
    if (!config::is_given(given, path)) model.*member = named.*member;
  };
  take("zeropp.model.num_layers", &model::Options::num_layers);
  take("zeropp.model.hidden_size", &model::Options::hidden_size);
  take("zeropp.model.num_attention_heads", &model::Options::num_attention_heads);
  take("zeropp.model.seq_length", &model::Options::seq_length);
  take("zeropp.model.vocab_size", &model::Options::vocab_size);
  take("zeropp.model.tied_head", &model::Options::tied_head);
}

void require_sizes(const Job& job, const std::vector<config::Option>& given) {
  if (!model::is_transformer(job.config.model)) return;
  for (const char* path : {"zeropp.model.num_layers", "zeropp.model.hidden_size"}) {
    if (config::is_given(given, path)) return;
  }
  throw Error(ExitCode::usage,
              fmt::format("no size of a model is given (a configuration of DeepSpeed's holds "
                          "none): give --model-preset (one of {}), --hf-config FILE, or "
                          "--num-layers, --hidden-size, --num-attention-heads, --seq-length and "
                          "--vocab-size",
                          fmt::join(plan::model_preset_names(), ", ")));
}

void take_model(Job& job, const std::vector<config::Option>& given) {
  if (job.model_preset.empty() && job.hf_config.empty()) return require_sizes(job, given);
  if (!job.model_preset.empty() && !job.hf_config.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("--model-preset {} and --hf-config {} both give a model: leave one out",
                            job.model_preset, job.hf_config));
  }
  model::Options& model = job.config.model;
  if (!model::is_transformer(model)) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.name {} has no sizes of a GPT: leave --model-preset and "
                            "--hf-config out",
                            model.name));
  }
  if (!job.model_preset.empty())
    return take_sizes(model, plan::model_preset(job.model_preset), given);
  const plan::HfModel read = plan::read_hf_config(job.hf_config);
  take_sizes(model, read.model, given);
  log::info(read.note);
}
}  // namespace

std::optional<std::size_t> declared_ranks_per_node(const Job& job) {
  if (job.ranks_per_node != 0) return job.ranks_per_node;
  if (job.config.node_size != 0) return job.config.node_size;
  return std::nullopt;
}

std::vector<config::Option> options(Job& job) {
  std::vector<config::Option> table{
      {.path = "plan.nodes",
       .flag = "--nodes",
       .nicknames = {"nnodes", "num-nodes"},
       .field = &job.nodes,
       .help = "Nodes that are planned where no cluster says how many; unless given, those of "
               "plan.cluster, and 2 with plan.gpu",
       .range = config::between(1, kMostRanks)},
      {.path = "plan.ranks_per_node",
       .flag = "--ranks-per-node",
       .other_flags = {"--gpus-per-node"},
       .nicknames = {"gpus", "num-gpus", "nproc-per-node"},
       .field = &job.ranks_per_node,
       .help = "Ranks, and with the back end cuda GPUs, of a node; "
               "0: as zeropp.node_size says, or 8",
       .range = config::between(0, kMostRanksPerNode)},
      {.path = "plan.step",
       .flag = "--step",
       .field = &job.step,
       .help = "Steps before the planned one; it decides where "
               "zeropp.codec_schedule changes codecs; unless given, 1 with "
               "zeropp.weight_differences at stage 3, whose first step sends whole weights",
       .unit = "steps"},
      {.path = "plan.model_preset",
       .flag = "--model-preset",
       .nicknames = {"preset", "model-size"},
       .field = &job.model_preset,
       .help = "Sizes of a GPT by its name; a flag of the model "
               "overrides its own",
       .choices = plan::model_preset_names(),
       .in_effect = [&job] { return !job.model_preset.empty(); }},
      {.path = "plan.hf_config",
       .flag = "--hf-config",
       .field = &job.hf_config,
       .help = "Sizes of a GPT from Hugging Face's config.json; the "
               "keys are those of GPT-2 or of Llama, and a flag of "
               "the model overrides its own"}};
  for (config::Option& option : config::options(job.config)) table.push_back(std::move(option));
  return table;
}

comm::Topology topology_of(Job& job) {
  if (job.config.model.num_layers > kMostLayers) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.num_layers {} is more than the {} that can be planned: "
                            "lower --num-layers",
                            job.config.model.num_layers, kMostLayers));
  }
  const std::size_t declared = job.config.node_size;
  job.ranks_per_node = declared_ranks_per_node(job).value_or(kUsualRanksPerNode);
  if (static_cast<double>(job.ranks_per_node) > kMostRanksPerNode) {
    throw Error(ExitCode::usage,
                fmt::format("nodes of {} ranks are larger than those of {} that can be planned: "
                            "lower --ranks-per-node, --node-size or the cluster's gpus_per_node",
                            job.ranks_per_node, kMostRanksPerNode));
  }
  if (declared != 0 && declared != job.ranks_per_node) {
    throw Error(
        ExitCode::usage,
        fmt::format("zeropp.node_size {} and plan.ranks_per_node {} say two sizes of a node: "
                    "leave --ranks-per-node out, and give --node-size, which overrides a file's",
                    declared, job.ranks_per_node));
  }
  return plan::planned_topology(job.nodes, job.ranks_per_node);
}

void take_job(Job& job, const std::vector<config::Option>& given) {
  take_model(job, given);
  if (!config::is_given(given, "plan.step")) job.step = plan::ordinary_step(job.config.zero);
}

std::string batch_text(const Job& job, const std::vector<config::Option>& given) {
  const auto is = [&](const char* path) { return config::is_given(given, path); };
  if (is("train_batch_size") || is("train_micro_batch_size_per_gpu")) return "";
  return fmt::format(
      "No batch is given, so a GPU trains 1 sequence of {} tokens a micro-step: --micro-batch-size "
      "or --global-batch-size say how many yours trains",
      job.config.model.seq_length);
}

std::string vocabulary_text(const Job& job) {
  const config::TrainConfig& config = job.config;
  if (config.model.vocab_size > 0 || config.data.source != data::Options{}.source) return "";
  return fmt::format(
      "No vocabulary is given, so the model has the {} tokens of zpp_train's synthetic data: "
      "--vocab-size says how many yours has",
      data::vocab_size(config.data));
}

std::string assumptions_text(const Job& job, const std::vector<config::Option>& given) {
  std::string text;
  for (const std::string& sentence : {batch_text(job, given), vocabulary_text(job)}) {
    if (!sentence.empty()) text += sentence + ".\n";
  }
  return text;
}

config::Machine machine_for(const comm::Topology& topology, bool rdma) {
  app::GpuPlacement gpus;
  gpus.every_rank = true;
  gpus.own = true;
  gpus.rdma = rdma;
  gpus.copy_engines = true;
  return app::machine_of(topology, gpus);
}

bool exceeds_limit(const plan::PlannedRun& run) {
  const std::size_t limit = run.config().device_memory_limit;
  return limit > 0 && plan::device_bytes(run.memory()) > limit;
}

void warn_of_limit(const plan::PlannedRun& run) {
  if (!exceeds_limit(run)) return;
  log::warn(
      fmt::format("a rank needs {} bytes where zeropp.device_memory_limit is {}: zpp_train "
                  "refuses this run; zpp_plan search finds what fits",
                  plan::device_bytes(run.memory()), run.config().device_memory_limit));
}

void warn_of_hpz(const plan::PlannedRun& run) {
  const std::string warning = zero::hpz_warning(
      run.config().zero, run.plans().step, static_cast<std::size_t>(run.topology().ranks_per_node));
  if (!warning.empty()) log::warn(warning);
}

}  // namespace zeropp::plan_app
