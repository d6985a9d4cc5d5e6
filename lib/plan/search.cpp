#include "lib/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/codec/codec.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/base/error.hpp"
#include "lib/model/description.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/saturating.hpp"

namespace zeropp::plan {

namespace {

bool is_none(const codec::CodecSpec& codec) { return codec == codec::CodecSpec{}; }

/// Bits of a value on the wire, of long messages.
double bits_of(const codec::CodecSpec& spec, Dtype plain) {
  constexpr std::size_t kValues = std::size_t{1} << 20U;
  return 8.0 * static_cast<double>(codec::Codec(spec, plain).wire_bytes(kValues)) /
         static_cast<double>(kValues);
}

void require_searchable(const config::TrainConfig& base) {
  const auto refuse = [](const char* key) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} is not searched over: leave it out here, and plan its configuration "
                    "with zpp_plan time, or estimate without a cluster",
                    key));
  };
  if (base.zero.adaptive_bits.values != zero::AdaptedValues::none) refuse("zeropp.adaptive_bits");
  if (!base.zero.codec_schedule.empty()) refuse("zeropp.codec_schedule");
  if (base.zero.error_feedback.hops != zero::FeedbackHops::none) refuse("zeropp.error_feedback");
  if (base.zero.measure_errors > 0) refuse("zeropp.measure_quantization_error");
  if (base.evaluation_interval == 1) refuse("zeropp.evaluation_interval 1");
}

/// What ranks say to each other, without what they compute.
struct Exchange {
  int stage;
  WeightChoice weights;
  GradientChoice gradients;
  std::size_t hpz;
  std::string all_gather;
  std::string reduce_scatter;
};

config::TrainConfig with(config::TrainConfig config, const Exchange& exchange) {
  zero::Options& zero = config.zero;
  zero.stage = exchange.stage;
  zero.quantized_weights = exchange.weights.quantized();
  if (zero.quantized_weights) zero.weight_codec = exchange.weights.whole;
  zero.weight_differences.enabled = exchange.weights.differences.has_value();
  if (exchange.weights.differences) zero.weight_differences.codec = *exchange.weights.differences;
  zero.quantized_gradients = !is_none(exchange.gradients.intra);
  if (zero.quantized_gradients) {
    zero.gradient_codec_intra = exchange.gradients.intra;
    zero.gradient_codec_inter = exchange.gradients.inter;
  }
  zero.hpz_partition_size = exchange.hpz;
  zero.all_gather_algorithm = exchange.all_gather;
  zero.reduce_scatter_algorithm = exchange.reduce_scatter;
  return config;
}

/// Calls body(exchange) for every combination.
template <class Body>
void for_each_exchange(const SearchSpace& space, const Body& body) {
  for (const int stage : space.stages) {
    for (const auto& weights : space.weights) {
      for (const auto& gradients : space.gradient_codecs) {
        for (const std::size_t hpz : space.hpz_sizes) {
          for (const auto& all_gather : space.all_gathers) {
            for (const auto& reduce_scatter : space.reduce_scatters) {
              body(Exchange{stage, weights, gradients, hpz, all_gather, reduce_scatter});
            }
          }
        }
      }
    }
  }
}

/// resolve()'s; nothing where it refuses, or takes one hop's codec for both, which is in the space
/// where it stands for itself. Counts what it says that refuses in `refusals`.
std::optional<config::TrainConfig> resolved(config::TrainConfig config, const Exchange& exchange,
                                            const config::Machine& machine,
                                            std::map<std::string, std::size_t>& refusals) {
  try {
    config::resolve(config, {}, machine);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    ++refusals[error.what()];
    return std::nullopt;
  }
  const bool other_codec = config.zero.quantized_gradients &&
                           config.zero.gradient_codec_inter != exchange.gradients.inter;
  if (other_codec) return std::nullopt;
  return config;
}

/// The activations' part of memory and work, by how a rank computes.
class Computations {
 public:
  explicit Computations(std::size_t source_vocab_size) : vocab_(source_vocab_size) {}

  const model::Description& of(const config::TrainConfig& config) {
    const auto key =
        std::pair{config.model.recompute_activations, config.train_micro_batch_size_per_gpu};
    auto found = known_.find(key);
    if (found == known_.end()) {
      found =
          known_.emplace(key, model::describe_model(config.model, sizing_of(config, vocab_))).first;
    }
    return found->second;
  }

 private:
  std::size_t vocab_;
  std::map<std::pair<bool, std::size_t>, model::Description> known_;
};

struct Planned {
  Candidate candidate;
  SharedPlan plan;
  /// Bytes over the GPU's link to the host, where they decide: before times are asked for. A time
  /// has theirs in it.
  double over_link = 0;
};

/// What of two candidates must be no larger for one to beat the other.
auto costs_of(const Planned& planned) {
  const Candidate& c = planned.candidate;
  return std::tuple(static_cast<double>(c.step.inter), static_cast<double>(c.step.intra),
                    planned.over_link, c.hardware_flops, static_cast<double>(c.memory),
                    -c.weight_bits, -c.gradient_bits, c.seconds.value_or(0));
}

/// How a candidate sends what it sends: of two routes one may be faster with the same bytes. Weight
/// differences are a route of their own: they go over other groups, and take other kernels. Within
/// a route, who sends, computes and holds no more, and has no more come from the host, takes no
/// longer.
using Route = std::tuple<int, std::string, std::string, bool>;
Route route_of(const Exchange& exchange, const zero::Options& zero) {
  // Differences along the rails leave nothing to the all-gather but units that persist.
  const bool gathers = !zero.exchanges_differences() || zero.persistence_threshold > 0;
  return {exchange.stage, gathers ? exchange.all_gather : "", exchange.reduce_scatter,
          exchange.weights.differences.has_value()};
}

template <class Tuple>
bool no_worse(const Tuple& a, const Tuple& b) {
  return std::apply(
      [&](const auto&... of_a) {
        return std::apply([&](const auto&... of_b) { return ((of_a <= of_b) && ...); }, b);
      },
      a);
}

/// Adds `planned` unless one that is there is as good in everything; drops what it beats.
void add_best(std::vector<Planned>& best, Planned planned) {
  const auto costs = costs_of(planned);
  for (const Planned& each : best) {
    if (no_worse(costs_of(each), costs)) return;
  }
  std::erase_if(best, [&](const Planned& each) { return no_worse(costs, costs_of(each)); });
  best.push_back(std::move(planned));
}

/// Counts a possible candidate in `result`, and says whether it is within the limits.
bool count(const Candidate& candidate, const SearchLimits& limits, SearchResult& result) {
  ++result.possible;
  if (candidate.weight_bits < limits.weight_bits) return false;
  if (candidate.gradient_bits < limits.gradient_bits) return false;
  result.least_memory = std::min(result.least_memory.value_or(candidate.memory), candidate.memory);
  const bool fits = limits.memory == 0 || candidate.memory <= limits.memory;
  if (fits) ++result.fitting;
  return fits;
}

/// Candidate that sends `step` bytes and holds `memory`.
Candidate candidate_of(const config::TrainConfig& config, const comm::Bytes& step,
                       std::size_t memory, const model::Description& model) {
  const zero::Options& zero = config.zero;
  const auto bits = [&](bool quantized, const codec::CodecSpec& codec) {
    return bits_of(quantized ? codec : codec::CodecSpec{}, zero.compute);
  };
  Candidate made;
  made.config = config;
  made.step = step;
  made.memory = memory;
  made.weight_bits = bits(zero.quantized_weights, zero.weight_codec);
  made.gradient_bits = std::min(bits(zero.quantized_gradients, zero.gradient_codec_intra),
                                bits(zero.quantized_gradients, zero.gradient_codec_inter));
  made.hardware_flops = model.hardware_flops_per_token *
                        static_cast<double>(config.train_batch_size) *
                        static_cast<double>(config.model.seq_length);
  return made;
}

template <class Value>
bool has(const std::vector<Value>& values, Value value) {
  return std::ranges::find(values, value) != values.end();
}

/// Bytes of an ordinary step, over all ranks.
comm::Bytes step_bytes(const PlannedRun& run) {
  const zero::StepPlan& plan = run.plans().step;
  comm::Bytes sum;
  for (const zero::Schedule* schedule : {&plan.step.when(false), &plan.update}) {
    const comm::Bytes sent = saturated_volume(*schedule, run.over_ranks());
    sum.intra = saturated_sum(sum.intra, sent.intra, 1);
    sum.inter = saturated_sum(sum.inter, sent.inter, 1);
  }
  return sum;
}

/// Adds what hybrid sharding sends and needs to `result` and `best`. Throws as search() does.
void search_hybrids(const config::TrainConfig& base, const SearchSpace& space,
                    const comm::Topology& topology, const config::Machine& machine,
                    std::size_t source_vocab_size, const SearchLimits& limits,
                    const StepSeconds& seconds, SearchResult& result, std::vector<Planned>& best) {
  const SearchSpace of_groups = {.stages = {3},
                                 .weights = space.weights,
                                 .gradient_codecs = space.gradient_codecs,
                                 .hpz_sizes = {1},
                                 .all_gathers = {base.zero.all_gather_algorithm},
                                 .reduce_scatters = {base.zero.reduce_scatter_algorithm},
                                 .recompute = space.recompute,
                                 .micro_batches = space.micro_batches};
  if (!has(space.stages, 3) || !has(space.hpz_sizes, std::size_t{1})) return;
  for (const std::size_t group : space.shard_groups) {
    if (group == zero::kAllRanks) continue;
    for_each_exchange(of_groups, [&](const Exchange& exchange) {
      if (exchange.weights.differences) return;
      config::TrainConfig asked = with(base, exchange);
      asked.zero.shard_group_size = group;
      for (const std::size_t micro_batch : space.micro_batches) {
        asked.train_micro_batch_size_per_gpu = micro_batch;
        result.considered += space.recompute.size();
        std::optional<config::TrainConfig> config =
            resolved(asked, exchange, machine, result.refusals);
        if (!config) continue;
        for (const bool recompute : space.recompute) {
          config->model.recompute_activations = recompute;
          PlannedRun run(*config, topology, source_vocab_size);
          run.plan_step(ordinary_step(config->zero));
          Candidate candidate =
              candidate_of(*config, step_bytes(run), device_bytes(run.memory()), run.model());
          if (!count(candidate, limits, result)) continue;
          if (seconds.are_given()) candidate.seconds = seconds.alone(run);
          add_best(best, {std::move(candidate), {}, 0});
        }
      }
    });
  }
}

}  // namespace

SearchResult search(const config::TrainConfig& base, const SearchSpace& space,
                    const comm::Topology& topology, const config::Machine& machine,
                    std::size_t source_vocab_size, const SearchLimits& limits,
                    const StepSeconds& seconds) {
  require_searchable(base);
  SearchResult result;
  std::optional<SharedPlans> plans;
  Computations computations(source_vocab_size);
  std::map<Route, std::vector<Planned>> by_route;  // one where times are not asked for
  config::TrainConfig over_all = base;
  over_all.zero.shard_group_size = zero::kAllRanks;
  const auto plan_shared = [&](const Exchange& exchange) {
    result.considered += space.micro_batches.size() * space.recompute.size();
    config::TrainConfig asked = with(over_all, exchange);
    for (const std::size_t micro_batch : space.micro_batches) {
      asked.train_micro_batch_size_per_gpu = micro_batch;
      std::optional<config::TrainConfig> config =
          resolved(asked, exchange, machine, result.refusals);
      if (!config) continue;
      if (!plans) {
        const model::Description& model = computations.of(*config);
        plans.emplace(topology, model.units, model.layers);
      }
      const SharedPlan plan = plans->plan(config->zero, optim::kept_by(config->optimizer));
      for (const bool recompute : space.recompute) {
        config->model.recompute_activations = recompute;
        const model::Description& model = computations.of(*config);
        Candidate candidate =
            candidate_of(*config, plan.step, plan.state + plan.arena + model.memory, model);
        if (!count(candidate, limits, result)) continue;
        add_best(by_route[seconds.are_given() ? route_of(exchange, config->zero) : Route{}],
                 {std::move(candidate), plan, seconds.are_given() ? plan.copied_over_link : 0});
      }
    }
  };
  if (has(space.shard_groups, zero::kAllRanks)) for_each_exchange(space, plan_shared);
  std::vector<Planned> best;
  for (auto& [route, of_route] : by_route) {
    for (Planned& each : of_route) {
      if (seconds.are_given()) {
        each.candidate.seconds = seconds.shared(each.candidate, each.plan);
        each.over_link = 0;
      }
      add_best(best, std::move(each));
    }
  }
  search_hybrids(base, space, topology, machine, source_vocab_size, limits, seconds, result, best);
  for (Planned& each : best) result.best.push_back(std::move(each.candidate));
  return result;
}

}  // namespace zeropp::plan
