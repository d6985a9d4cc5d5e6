// Which codecs an engine's next step takes: those of the table, and of adaptive bits.
#include <utility>

#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

/// The same run with one codec for the values that are adaptive.
Options with_codec(Options options, const codec::CodecSpec& codec) {
  (options.adaptive_bits.values == "weights" ? options.weight_codec
                                             : options.gradient_codec_intra) = codec;
  options.gradient_codec_inter = options.gradient_codec_intra;
  options.adaptive_bits.values = "none";
  options.codec_schedule.clear();
  options.error_feedback = {};
  return options;
}

}  // namespace

WidthCosts Engine::width_costs(comm::Groups& reduce_groups) const {
  // Gathers and reductions of a step by unit and bucket. What the budget's codec would send is
  // asked of plans that nobody runs.
  trace::Recorder nobody;
  const Options budget = with_codec(options_, options_.adaptive_bits.budget_codec);
  const CodecTable table(budget, model_.units());
  const bool of_weights = options_.adaptive_bits.values == "weights";
  const WeightGather gathers(budget, table, plans_.units, groups_, nobody, device_);
  const GradientReduce reductions(budget, table, plans_.units, plans_.gradients.buckets(),
                                  reduce_groups, nobody, device_);
  const std::size_t widths = adaptive_codecs(options_.adaptive_bits).size();
  WidthCosts costs;
  costs.bytes.assign(plans_.units.size(), std::vector<std::uint64_t>(widths, 0));
  const auto total = [](const comm::Bytes& sent) { return sent.intra + sent.inter; };
  for (const Op& op : plans_.step.step.front().ops) {
    if (op.kind != (of_weights ? OpKind::gather : OpKind::reduce)) continue;
    const std::size_t unit =
        of_weights ? op.index : plans_.gradients.buckets()[op.index].segments.front().unit;
    for (std::size_t i = 0; i < widths; ++i) {
      costs.bytes[unit][i] += total(of_weights ? plans_.weights.volume(op.index, i)
                                               : plans_.gradients.volume(op.index, i));
    }
    costs.of_budget_codec +=
        total(of_weights ? gathers.volume(op.index, 0) : reductions.volume(op.index, 0));
  }
  return costs;
}

void Engine::prepare() {
  if (std::exchange(prepared_, true)) return;
  offers_ = groups_.offer(arena_, control_);
  if (&reduce_groups_ != &groups_) {
    for (auto& offer : reduce_groups_.offer(arena_, control_)) offers_.push_back(std::move(offer));
  }
  if (adaptive_) adaptive_->agree();
}

void Engine::apply_codecs() {
  prepare();
  CodecChoice next = plans_.codecs.at(steps_begun_);
  if (adaptive_) adaptive_->overlay(next);
  if (next == choice_) return;
  // Where weights stay what they are while their codec changes (after a skipped step), hpZ's shards
  // hold what the codec before made of them: they are cut again, as gathers without hpZ would be.
  if (next.weights != choice_.weights) secondary_version_ = 0;
  const CodecChoice before = std::exchange(choice_, std::move(next));
  plans_.use(choice_);
  if (codecs_vary(options_)) record_codecs(before);
}

void Engine::record_codecs(const CodecChoice& before) {
  const bool first = before.weights.empty();
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    if (!first && before.weights[u] == choice_.weights[u] &&
        before.gradients[u] == choice_.gradients[u]) {
      continue;
    }
    const GradientCodecs& gradients = plans_.codecs.gradients(u)[choice_.gradients[u]];
    recorder_.codecs.push_back({.step = steps_begun_,
                                .unit = u,
                                .weights = to_string(plans_.codecs.weights(u)[choice_.weights[u]]),
                                .gradients_intra = to_string(gradients.intra),
                                .gradients_inter = to_string(gradients.inter)});
  }
}

void Engine::choose_widths() {
  if (!adaptive_ || !adaptive_->due(steps_begun_ - 1)) return;
  const Stream& compute = stream(StreamId::compute);
  if (adaptive_->of_weights()) {
    join({StreamId::update});
    std::vector<ConstView> shards;
    for (std::size_t u = 0; u < plans_.units.size(); ++u) shards.push_back(compute_shard(u));
    adaptive_->errors().keep(shards, compute.handle());
  }
  adaptive_->choose(steps_begun_ - 1, compute);
}

}  // namespace zeropp::zero
