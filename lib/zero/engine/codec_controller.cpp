#include "lib/zero/engine/codec_controller.hpp"

#include <utility>

#include "lib/zero/plan/draw_keys.hpp"
#include "lib/zero/plan/measurement.hpp"

namespace zeropp::zero {

namespace {

/// Options of the same run with one codec for the values that are adaptive.
Options with_codec(Options options, const codec::CodecSpec& codec) {
  (options.adaptive_bits.values == AdaptedValues::weights ? options.weight_codec
                                                          : options.gradient_codec_intra) = codec;
  options.gradient_codec_inter = options.gradient_codec_intra;
  options.adaptive_bits.values = AdaptedValues::none;
  options.codec_schedule.clear();
  options.error_feedback = {};
  return options;
}

}  // namespace

CodecController::CodecController(const EngineContext& context, const RankMemory& memory,
                                 const RankOptimizer& optimizer)
    : context_(context), memory_(memory), optimizer_(optimizer) {
  const RankPlan& plan = context.plan;
  if (context.options.measure_errors > 0) {
    errors_.emplace(context.options, context.model.units(), plan, context.reduce_groups,
                    context.control, context.device, context.recorder);
  }
  if (context.options.adaptive_bits.values != AdaptedValues::none) {
    adaptive_.emplace(context.options, plan.units, width_costs(), context.control, context.device,
                      context.recorder);
  }
}

WidthCosts CodecController::width_costs() const {
  // Gathers and reductions of a step by unit and bucket.
  const Options& options = context_.options;
  const RankPlan& plan = context_.plan;
  const Options budget = with_codec(options, options.adaptive_bits.budget_codec);
  const CodecTable table(budget, context_.model.units());
  const bool of_weights = options.adaptive_bits.values == AdaptedValues::weights;
  CollectiveDescriptions of_budget;
  of_budget.describe_weights(budget, table, plan.units, context_.groups.shape());
  of_budget.describe_gradients(budget, table, plan.units, plan.buckets(),
                               context_.reduce_groups.shape());
  const Transfer transfer = of_weights ? Transfer::weights : Transfer::gradients;
  const std::size_t widths = adaptive_codecs(options.adaptive_bits).size();
  WidthCosts costs;
  costs.bytes.assign(plan.units.size(), std::vector<std::uint64_t>(widths, 0));
  const auto total = [](const collective::Description& described) {
    return described.bytes.intra + described.bytes.inter;
  };
  for (const Op& op : plan.step.step.stale.ops) {
    if (op.kind != (of_weights ? OpKind::gather : OpKind::reduce)) continue;
    const std::size_t unit = of_weights ? op.index : unit_of(plan.buckets()[op.index]);
    for (std::size_t i = 0; i < widths; ++i)
      costs.bytes[unit][i] += total(plan.collectives.at({transfer, op.index, i}));
    costs.of_budget_codec += total(of_budget.at({transfer, op.index}));
  }
  return costs;
}

void CodecController::agree() {
  if (adaptive_) adaptive_->agree();
}

void CodecController::apply() {
  Progress& progress = context_.progress;
  const CodecTable& codecs = context_.plan.codecs;
  CodecChoice next = codecs.at(progress.steps.begun);
  if (adaptive_) adaptive_->overlay(next);
  // The codec may change while the weights do not (after a skipped step): hpZ's shards then hold
  // what the former codec made of the weights, and are cut again from a new gather. Copies that a
  // checkpoint restored were made with the codecs of the step before.
  const bool restored = choice_.weights.empty() && progress.steps.begun > 0;
  if (next.weights != (restored ? codecs.at(progress.steps.begun - 1) : choice_).weights)
    progress.secondary = 0;
  // At stages 1 and 2 the resident weights are whole when differences are sent to them.
  if (progress.secondary == 0 && !context_.options.refreshes_differences())
    next.whole_weights = true;
  if (next == choice_) return;
  const CodecChoice before = std::exchange(choice_, std::move(next));
  context_.plan.use(choice_);
  context_.collectives.weights.use(choice_);
  context_.collectives.gradients.use(choice_.gradients);
  if (codecs_vary(context_.options)) record(before);
}

void CodecController::record(const CodecChoice& before) {
  const bool first = before.weights.empty();
  const CodecTable& codecs = context_.plan.codecs;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    if (!first && before.weights[u] == choice_.weights[u] &&
        before.gradients[u] == choice_.gradients[u]) {
      continue;
    }
    const GradientCodecs& gradients = codecs.gradients(u)[choice_.gradients[u]];
    context_.recorder.codecs.push_back({.step = context_.progress.steps.begun,
                                        .unit = u,
                                        .weights = to_string(codecs.weights(u)[choice_.weights[u]]),
                                        .gradients_intra = to_string(gradients.intra),
                                        .gradients_inter = to_string(gradients.inter)});
  }
}

void CodecController::begin_step() {
  measured_ = errors_ && errors_->begin_step(context_.progress.steps.begun);
}

void CodecController::measure(bool finite) {
  if (!measured_) return;
  if (context_.preset.shard_optimizer) measure_weights();
  if (finite) measure_gradients();
}

std::vector<ConstView> CodecController::weight_shards() const {
  std::vector<ConstView> shards;
  for (std::size_t u = 0; u < context_.units().size(); ++u)
    shards.push_back(optimizer_.weight_shard(u));
  return shards;
}

ConstView CodecController::kept_shard(std::size_t unit) const {
  const UnitPartition& of = context_.units()[unit];
  if (encodes_again(context_.options, of)) return {};
  const ConstView kept =
      is_refreshed(context_.preset, of) ? memory_.resident(unit) : memory_.copy(unit);
  return kept.part(context_.own_piece(kept.count / of.shard) * of.shard, of.shard);
}

void CodecController::measure_weights() {
  std::vector<ConstView> kept;
  std::vector<std::uint64_t> keys;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    kept.push_back(kept_shard(u));
    keys.push_back(weight_draws(context_.options.seed, context_.progress.version, u));
  }
  errors_->weights(weight_shards(), kept, keys, choice_.weights, context_.compute());
}

void CodecController::before_reduction(const Op& op) {
  const StreamHandle on = context_.executor.stream(op.stream).handle();
  if (measured_) {
    const bool first = op.micro_step == 0 || !context_.preset.shard_gradients;
    errors_->reduce(op.index, memory_.gradients, first, on);
  }
  if (adaptive_ && !adaptive_->of_weights() && adaptive_->due(context_.progress.steps.begun - 1)) {
    adaptive_->errors().keep(context_.plan.buckets()[op.index], memory_.gradients, on);
  }
}

void CodecController::measure_gradients() {
  const auto rank = static_cast<std::size_t>(context_.groups.world->rank());
  std::vector<ConstView> shards;
  for (const ConstView gradient : memory_.own_gradients()) {
    const std::size_t shard = context_.units()[shards.size()].shard;
    shards.emplace_back(gradient.part(context_.preset.shard_optimizer ? 0 : rank * shard, shard));
  }
  errors_->gradients(shards, context_.compute());
}

void CodecController::choose_widths() {
  const std::uint64_t step = context_.progress.steps.begun - 1;
  if (!adaptive_ || !adaptive_->due(step)) return;
  const Stream& compute = context_.compute();
  if (adaptive_->of_weights()) {
    context_.executor.join();
    adaptive_->errors().keep(weight_shards(), compute.handle());
  }
  adaptive_->choose(step, compute);
}

std::vector<MemoryReport> CodecController::memory() const {
  std::vector<MemoryReport> reports;
  if (adaptive_) reports.push_back(adaptive_->memory());
  if (errors_) reports.push_back(errors_->memory());
  return reports;
}

}  // namespace zeropp::zero
