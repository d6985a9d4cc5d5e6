#include "apps/train/collect.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/app/run_trace.hpp"
#include "lib/app/sum_over_ranks.hpp"
#include "lib/device/runtime.hpp"
#include "lib/model/registry.hpp"
#include "lib/train/tokens.hpp"
#include "lib/train/verdict.hpp"

namespace zeropp::train_app {

namespace {

using nlohmann::json;
using Category = trace::Timers::Category;

std::vector<trace::TimerRow> timers_of_ranks(const trace::Timers& timers, comm::Control& control) {
  constexpr auto kCount = static_cast<std::size_t>(Category::count);
  std::array<double, kCount> own{};
  for (std::size_t c = 0; c < kCount; ++c) own.at(c) = timers.seconds(static_cast<Category>(c));
  const std::vector<double> all = control.all_gather(own);
  std::vector<trace::TimerRow> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    rows.push_back({i / kCount,
                    std::string(trace::Timers::name_of(static_cast<Category>(i % kCount))),
                    all[i]});
  }
  return rows;
}

/// Sums over ranks, on rank 0.
std::map<std::string, std::uint64_t> counters_of_ranks(const trace::Recorder& recorder,
                                                       comm::Control& control) {
  std::map<std::string, std::uint64_t> sums;
  for (const std::string& text : control.gather(json(recorder.counters).dump())) {
    const json counters = json::parse(text);
    for (const auto& [name, value] : counters.items()) {
      sums[name] += value.get<std::uint64_t>();
    }
  }
  return sums;
}

std::vector<trace::CheckpointRow> checkpoints_of_ranks(const trace::Recorder& recorder,
                                                       comm::Control& control) {
  std::vector<trace::CheckpointRow> rows = recorder.checkpoints;
  for (trace::CheckpointRow& row : rows) {
    std::array<double, 2> longest{row.time_paused, row.time_writing};
    control.all_reduce_max(longest);
    row.time_paused = longest[0];
    row.time_writing = longest[1];
    std::array<std::uint64_t, 1> bytes{row.bytes};
    control.all_reduce_sum(bytes);
    row.bytes = bytes[0];
  }
  return rows;
}

std::string verdict_of(const trace::Recorder& recorder) {
  std::optional<std::string> reason = train::wrong_bytes(recorder);
  if (!reason) reason = train::divergence(recorder);
  return reason ? "INVALID: " + *reason : "VALID";
}

}  // namespace

trace::TraceData collect(const config::TrainConfig& config, const app::Context& context,
                         train::Session& session, const data::TokenSource& source) {
  comm::Control& control = context.control();
  const trace::Recorder& recorder = session.recorder();
  const zero::UnitModel& model = session.model();
  trace::TraceData data = app::run_trace(context, *config.backend, *config.transport);
  data.kernels = model.kernels();
  data.flops_per_token = model.flops_per_token();
  data.hardware_flops_per_token = model.hardware_flops_per_token();
  if (config.hash_parameters) data.parameters_hash = session.engine().parameters_hash();
  if (config.hash_parameters) data.copies = session.engine().copy_hashes();
  data.copies_found = recorder.copies_found;
  data.verdict = verdict_of(recorder);
  data.first_step = recorder.first_step;
  data.interrupted = recorder.interrupted;
  data.seed = config.seed;
  data.deterministic = config.zero.deterministic;
  data.units = recorder.units;
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    for (const zero::Tensor& tensor : model.units()[u].tensors) {
      data.tensors.push_back({u, tensor.name, tensor.count(), tensor.offset});
    }
  }
  const std::vector<model::LayerFlops> flops =
      model::layer_flops(config.model, source.vocab_size(), config.train_micro_batch_size_per_gpu);
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const zero::Layer& layer = model.layers()[l];
    data.layers.push_back({layer.name, layer.units, flops.at(l).model, flops.at(l).hardware});
  }
  data.steps = recorder.steps;
  data.evaluations = recorder.evaluations;
  data.evaluation_cut_off = recorder.evaluation_cut_off;
  data.collectives = app::sum_over_ranks(recorder.collectives, control);
  data.timers = timers_of_ranks(recorder.timers, control);
  data.counters = counters_of_ranks(recorder, control);
  std::uint64_t predicted = 0;
  for (const zero::MemoryReport& report : session.engine().memory()) {
    data.memory.push_back({report.name, report.predicted, report.actual});
    if (!zero::is_offloaded(report.name)) predicted += report.predicted;
  }
  for (const zero::MemoryReport& report : model.offloaded_memory()) {
    data.memory.push_back({report.name, report.predicted, report.actual});
  }
  if (config.backend == Backend::cuda) {
    const MemoryUse use = cuda_runtime()->memory_use();
    predicted *= std::max<std::size_t>(config.virtual_ranks, 1);  // of all ranks of this process
    data.memory.push_back({"buffers_peak", predicted, use.peak});
    data.memory.push_back({"gpu_used", predicted, gpu_memory_used()});
  }
  data.error_interval = config.zero.measure_errors;
  data.errors = recorder.errors;
  data.codecs = recorder.codecs;
  data.exact_differences = config.zero.weight_differences.exact;
  data.exact = recorder.exact;
  data.widths = recorder.widths;
  data.width_budget = recorder.width_budget;
  data.saves = !config.checkpoint.save.empty();
  data.checkpoints = checkpoints_of_ranks(recorder, control);
  data.data = train::describe_tokens(source);
  return data;
}

}  // namespace zeropp::train_app
