#include "apps/plan/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/units.hpp"
#include "lib/config/options.hpp"
#include "lib/data/token_source.hpp"
#include "lib/model/registry.hpp"
#include "lib/plan/estimate.hpp"
#include "lib/plan/hf_config.hpp"
#include "lib/plan/hf_shape.hpp"
#include "lib/plan/model_presets.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/zero/plan/hpz_use.hpp"

namespace zeropp::plan_app {

namespace {
constexpr double kMostRanks = std::numeric_limits<int>::max();
/// Every rank of a node is planned, and every layer.
constexpr double kMostRanksPerNode = 4096;
constexpr std::size_t kMostLayers = 100'000;

/// Takes the model `named`, but for what `given` says of it.
void take_sizes(model::Options& model, const model::Options& named,
                const std::vector<config::Option>& given) {
  const auto take = [&](const char* path, auto member) {
    if (!config::is_given(given, path)) model.*member = named.*member;
  };
  take("zeropp.model.num_layers", &model::Options::num_layers);
  take("zeropp.model.hidden_size", &model::Options::hidden_size);
  take("zeropp.model.num_attention_heads", &model::Options::num_attention_heads);
  take("zeropp.model.num_key_value_heads", &model::Options::num_key_value_heads);
  take("zeropp.model.head_dim", &model::Options::head_dim);
  take("zeropp.model.ffn_hidden_size", &model::Options::ffn_hidden_size);
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
  const std::string asked = std::exchange(model.name, read.model.name);
  model.parts = read.model.parts;
  plan::take_trainers(model);
  try {
    model::validate(model);
  } catch (const Error& refusal) {  // of sizes that the file has, or flags beside it
    throw Error(refusal.code(), fmt::format("{}: {}", job.hf_config, refusal.what()));
  }
  if (config::is_given(given, "zeropp.model.name") && asked != model.name) {
    log::warn(
        fmt::format("--hf-config {} says which blocks are planned: --model {} is left out of "
                    "account",
                    job.hf_config, asked));
  }
  job.hf_dtype = read.dtype;
  log::info(plan::describe_hf_model(read, model));
  const std::string doubt = plan::doubt_hf_model(read, model);
  if (!doubt.empty()) log::warn(doubt);
}

/// A file may be of a run that begins with them.
void refuse_read_weights(const std::vector<config::Option>& given) {
  for (const config::Option& option : given) {
    const bool is_read =
        option.path == "zeropp.checkpoint.load" || option.path == "zeropp.checkpoint.weights";
    if (!is_read || !option.given || !option.key.empty()) continue;
    throw Error(ExitCode::usage,
                fmt::format("{} would have no effect: a plan reads no checkpoint and no weights: "
                            "leave it out",
                            option.flag));
  }
}

bool is_automatic(const std::vector<config::Option>& given, std::string_view path) {
  return std::ranges::any_of(given, [&](const config::Option& option) {
    return option.path == path && option.is_automatic;
  });
}

/// Warns of a plan in fp32 that nobody asked for, of a file whose weights have 16 bits.
void warn_of_weights(const Job& job, const std::vector<config::Option>& given) {
  const bool in_16_bits = job.hf_dtype == "bfloat16" || job.hf_dtype == "float16";
  if (!in_16_bits || config::is_given(given, "bf16.enabled") ||
      config::is_given(given, "fp16.enabled")) {
    return;
  }
  log::warn(
      fmt::format("fp32 is planned, since no precision is given, and {} has its weights in {}: "
                  "give --{} to plan that, or --no-bf16 for fp32",
                  job.hf_config, job.hf_dtype, job.hf_dtype == "bfloat16" ? "bf16" : "fp16"));
}

/// Takes what "auto" stands for as a precision: that of the model's weights, else bf16, which is
/// what is trained in today. The program that DeepSpeed is called by decides it there.
void take_precision(Job& job, const std::vector<config::Option>& given) {
  config::TrainConfig& config = job.config;
  const bool bf16 = is_automatic(given, "bf16.enabled");
  const bool fp16 = is_automatic(given, "fp16.enabled");
  if (config.bf16 || config.fp16) return;
  if (!(bf16 || fp16)) return warn_of_weights(job, given);
  const char* const key = bf16 ? "bf16.enabled" : "fp16.enabled";
  if (job.hf_dtype == "float32") {
    log::warn(
        fmt::format("{} is \"auto\": fp32 is planned, as {} has its weights; give --bf16 where "
                    "Hugging Face's Trainer has it, or --fp16",
                    key, job.hf_config));
    return;
  }
  config.fp16 = fp16 && (!bf16 || job.hf_dtype == "float16");
  config.bf16 = !config.fp16;
  const bool of_weights = job.hf_dtype == (config.bf16 ? "bfloat16" : "float16");
  log::info(
      fmt::format("{} is \"auto\": {} is planned, {}; --{} or --no-{} plans another precision", key,
                  config.bf16 ? "bf16" : "fp16",
                  of_weights ? "as " + job.hf_config + " has its weights"
                             : "since nothing says which precision is meant",
                  config.bf16 ? "fp16" : "bf16", config.bf16 ? "bf16" : "fp16"));
}

/// Empty where `given` says a batch.
std::string batch_text(const Job& job, const std::vector<config::Option>& given) {
  const auto is = [&](const char* path) { return config::is_given(given, path); };
  if (is("train_batch_size") || is("train_micro_batch_size_per_gpu")) return "";
  return fmt::format(
      "No batch is given, so a GPU trains 1 sequence of {} tokens a micro-step: --micro-batch-size "
      "or --global-batch-size say how many yours trains",
      job.config.model.seq_length);
}

/// Empty where a model or data say which.
std::string vocabulary_text(const Job& job) {
  const config::TrainConfig& config = job.config;
  if (config.model.vocab_size > 0 || config.data.source != data::Options{}.source) return "";
  return fmt::format(
      "No vocabulary is given, so the model has the {} tokens of zpp_train's synthetic data: "
      "--vocab-size says how many yours has",
      data::vocab_size(config.data));
}

/// Empty where no evaluation changes what a step gathers.
std::string step_text(const Job& job) {
  const config::TrainConfig& config = job.config;
  if (config.evaluation_interval == 0 || !config.zero.has_secondary()) return "";
  if (job.step % config.evaluation_interval == 0) {
    return fmt::format("Step {} is planned: an evaluation right before it gathered its weights",
                       job.step);
  }
  return fmt::format(
      "Step {} is planned; a step right after an evaluation, as --step {}, finds its weights "
      "gathered",
      job.step, config.evaluation_interval);
}

/// A limit of stage 3 of which DeepSpeed has another default.
struct Limit {
  const char* name;
  std::size_t zero::Options::*member;
  std::size_t in_deepspeed;  ///< deepspeed/runtime/zero/config.py
};
constexpr std::array kLimits{
    Limit{"stage3_max_live_parameters", &zero::Options::max_live_parameters, 1'000'000'000},
    Limit{"stage3_max_reuse_distance", &zero::Options::max_reuse_distance, 1'000'000'000},
    Limit{"stage3_param_persistence_threshold", &zero::Options::persistence_threshold, 100'000}};

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
       .field = &job.nodes,
       .help = "Nodes that are planned where no cluster says how many; unless given, those of "
               "plan.cluster, and 2 with plan.gpu",
       .range = config::between(1, kMostRanks)},
      {.path = "plan.ranks_per_node",
       .flag = "--ranks-per-node",
       .other_flags = {"--gpus-per-node"},
       .field = &job.ranks_per_node,
       .help = "Ranks, with the back end cuda GPUs, of a node (--gpus-per-node); "
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
       .field = &job.model_preset,
       .help = "Sizes of a GPT by its name; a flag of the model "
               "overrides its own",
       .choices = plan::model_preset_names(),
       .in_effect = [&job] { return !job.model_preset.empty(); }},
      {.path = "plan.hf_config",
       .flag = "--hf-config",
       .field = &job.hf_config,
       .help = "Model of Hugging Face's config.json, with its own blocks; a flag of the model "
               "overrides its size"}};
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
  take_precision(job, given);
  refuse_read_weights(given);
  // The plan of a run on virtual ranks is of the real ranks that it stands for.
  if (job.config.virtual_ranks > 0) job.config.transport.reset();
  job.config.virtual_ranks = 0;
  if (config::is_given(given, "plan.step")) return;
  // The step before which no evaluation gathers the weights, where there is one.
  const bool evaluates = job.config.zero.stage == 3 && job.config.evaluation_interval > 1;
  job.step = std::max<std::size_t>(plan::ordinary_step(job.config.zero), evaluates ? 1 : 0);
}

std::string assumptions_text(const Job& job, const std::vector<config::Option>& given) {
  std::string text;
  for (const std::string& sentence :
       {batch_text(job, given), vocabulary_text(job), step_text(job)}) {
    if (!sentence.empty()) text += sentence + ".\n";
  }
  return text;
}

bool is_of_deepspeed(const std::vector<config::Option>& given) {
  const auto of_file = [](const config::Option& option) { return !option.key.empty(); };
  const auto of_zeropp = [](const config::Option& option) {
    return option.key.starts_with("zeropp.") || option.key.starts_with("plan.");
  };
  return std::ranges::any_of(given, of_file) && std::ranges::none_of(given, of_zeropp);
}

std::string limits_text(const plan::PlannedRun& run, std::string_view name,
                        const std::vector<config::Option>& given) {
  if (!is_of_deepspeed(given) || run.config().zero.stage < 3) return "";
  config::TrainConfig config = run.config();
  std::vector<std::string> left_out;
  for (const Limit& limit : kLimits) {
    const std::string path = fmt::format("zero_optimization.{}", limit.name);
    if (config::is_given(given, path)) continue;
    std::size_t& value = config.zero.*limit.member;
    left_out.push_back(
        fmt::format("{} ({} here, {} in DeepSpeed)", limit.name, value, limit.in_deepspeed));
    value = limit.in_deepspeed;
  }
  plan::PlannedRun there(config, run.topology(), data::vocab_size(config.data));
  there.plan_step(run.step());
  const auto what = [](const zero::Op& op) { return std::tuple(op.kind, op.index, op.stream); };
  if (std::ranges::equal(run.step_schedule().ops, there.step_schedule().ops, {}, what, what)) {
    return "";
  }
  const plan::Estimate told = plan::estimate(there);
  return fmt::format(
      "The file leaves out {}: with DeepSpeed's, {} sends {:.3f} GB out of a node and needs {:.3f} "
      "GiB per GPU.\n",
      fmt::join(left_out, ", "), name,
      static_cast<double>(told.step.total().bytes.inter) / run.topology().node_count / kGiga,
      static_cast<double>(told.memory_bytes) / kGibibyte);
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
