#include "lib/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "kernels/codec/codec.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/base/error.hpp"
#include "lib/base/in_parallel.hpp"
#include "lib/model/description.hpp"
#include "lib/plan/candidate_plans.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/step_time.hpp"

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

/// Choices that decide the communication between ranks, without their computations.
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

/// Part of a space: one stage, one way to send weights and one size of the shard groups.
struct Part {
  int stage;
  WeightChoice weights;
  std::size_t shard_group;
};

template <class Value>
bool has(const std::vector<Value>& values, Value value) {
  return std::ranges::find(values, value) != values.end();
}

/// Parts in the order in which candidates are counted.
std::vector<Part> parts_of(const SearchSpace& space) {
  std::vector<Part> parts;
  for (const std::size_t group : space.shard_groups) {
    for (const int stage : space.stages) {
      for (const WeightChoice& weights : space.weights) {
        const bool tried =
            stage == 3 && !weights.differences && has<std::size_t>(space.hpz_sizes, 1);
        if (group == zero::kAllRanks || tried) parts.push_back({stage, weights, group});
      }
    }
  }
  return parts;
}

/// Calls body(exchange) for every combination of a part.
template <class Body>
void for_each_exchange(const Part& part, const SearchSpace& whole, const zero::Options& base,
                       const Body& body) {
  SearchSpace space = whole;
  if (part.shard_group != zero::kAllRanks) {
    space.hpz_sizes = {1};
    space.all_gathers = {base.all_gather_algorithm};
    space.reduce_scatters = {base.reduce_scatter_algorithm};
  }
  for (const auto& gradients : space.gradient_codecs) {
    for (const std::size_t hpz : space.hpz_sizes) {
      for (const auto& all_gather : space.all_gathers) {
        for (const auto& reduce_scatter : space.reduce_scatters) {
          body(Exchange{part.stage, part.weights, gradients, hpz, all_gather, reduce_scatter});
        }
      }
    }
  }
}

/// Resolves `config`. Returns nothing where resolve() refuses it, which is counted in `refusals`,
/// or where it takes one codec for both hops, a combination that is searched by itself.
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
  /// Bytes over the GPU's link to the host, where they decide: before times are worked out. A time
  /// has theirs in it.
  double over_link = 0;
};

/// Costs of a candidate; none of them may be larger for it to beat another candidate.
auto costs_of(const Planned& planned) {
  const Candidate& c = planned.candidate;
  return std::tuple(static_cast<double>(c.step.inter), static_cast<double>(c.step.intra),
                    planned.over_link, c.hardware_flops, static_cast<double>(c.memory),
                    -c.weight_bits, -c.gradient_bits, c.seconds.value_or(0));
}

/// How a candidate sends its bytes: one of two routes may be faster with the same bytes. Weight
/// differences are a route of their own: they go over other groups, and take other kernels. Within
/// a route, a candidate that is no worse in bytes, work, memory and host transfers is no slower.
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

Candidate candidate_of(const config::TrainConfig& config, const CandidatePlan& plan,
                       const model::Description& model) {
  const zero::Options& zero = config.zero;
  const auto bits = [&](bool quantized, const codec::CodecSpec& codec) {
    return bits_of(quantized ? codec : codec::CodecSpec{}, zero.compute);
  };
  Candidate made;
  made.config = config;
  made.step = plan.step;
  made.memory = plan.memory + model.memory;
  made.weight_bits = bits(zero.quantized_weights, zero.weight_codec);
  made.gradient_bits = std::min(bits(zero.quantized_gradients, zero.gradient_codec_intra),
                                bits(zero.quantized_gradients, zero.gradient_codec_inter));
  made.hardware_flops = model.hardware_flops_per_token *
                        static_cast<double>(config.train_batch_size) *
                        static_cast<double>(config.model.seq_length);
  return made;
}

/// Results of the search of a part of a space.
struct Found {
  SearchResult counts;
  std::map<Route, std::vector<Planned>> by_route;  ///< one where times are not asked for
  std::vector<Planned> of_groups;                  ///< all that fit: they are few
};

Found search_part(const Part& part, const config::TrainConfig& base, const SearchSpace& space,
                  const comm::Topology& topology, const config::Machine& machine,
                  std::size_t source_vocab_size, const SearchLimits& limits, bool timed) {
  Found found;
  std::optional<CandidatePlans> plans;
  Computations computations(source_vocab_size);
  for_each_exchange(part, space, base.zero, [&](const Exchange& exchange) {
    found.counts.considered += space.micro_batches.size() * space.recompute.size();
    config::TrainConfig asked = with(base, exchange);
    asked.zero.shard_group_size = part.shard_group;
    for (const std::size_t micro_batch : space.micro_batches) {
      asked.train_micro_batch_size_per_gpu = micro_batch;
      std::optional<config::TrainConfig> config =
          resolved(asked, exchange, machine, found.counts.refusals);
      if (!config) continue;
      if (!plans) {
        const model::Description& model = computations.of(*config);
        plans.emplace(topology, model.units, model.layers);
      }
      const CandidatePlan plan = plans->plan(config->zero, optim::kept_by(config->optimizer));
      for (const bool recompute : space.recompute) {
        config->model.recompute_activations = recompute;
        Candidate candidate = candidate_of(*config, plan, computations.of(*config));
        if (!count(candidate, limits, found.counts)) continue;
        Planned planned{std::move(candidate), timed ? plan.over_link : 0};
        if (part.shard_group != zero::kAllRanks) {
          found.of_groups.push_back(std::move(planned));
        } else {
          add_best(found.by_route[timed ? route_of(exchange, config->zero) : Route{}],
                   std::move(planned));
        }
      }
    }
  });
  return found;
}

void add_counts(SearchResult& sums, const SearchResult& more) {
  sums.considered += more.considered;
  sums.possible += more.possible;
  sums.fitting += more.fitting;
  if (more.least_memory) {
    sums.least_memory =
        std::min(sums.least_memory.value_or(*more.least_memory), *more.least_memory);
  }
  for (const auto& [refusal, times] : more.refusals) sums.refusals[refusal] += times;
}

/// Seconds of an ordinary step of a candidate. Micro-steps are simulated, and only a few of them
/// have to be planned.
double seconds_of(config::TrainConfig config, const comm::Topology& topology,
                  std::size_t source_vocab_size, const Cluster& cluster) {
  config.zero.accumulation_steps = 1;
  PlannedRun run(config, topology, source_vocab_size);
  run.plan_step(ordinary_step(config.zero));
  return step_seconds(run, cluster);
}

}  // namespace

SearchResult search(const config::TrainConfig& base, const SearchSpace& space,
                    const comm::Topology& topology, const config::Machine& machine,
                    std::size_t source_vocab_size, const SearchLimits& limits,
                    const Cluster* cluster) {
  require_searchable(base);
  const std::vector<Part> parts = parts_of(space);
  const std::vector<Found> found = in_parallel(parts.size(), [&](std::size_t index) {
    return search_part(parts[index], base, space, topology, machine, source_vocab_size, limits,
                       cluster != nullptr);
  });
  SearchResult result;
  std::map<Route, std::vector<Planned>> by_route;
  for (const Found& each : found) {
    add_counts(result, each.counts);
    for (const auto& [route, of_route] : each.by_route) {
      for (const Planned& planned : of_route) add_best(by_route[route], planned);
    }
  }
  std::vector<Planned> candidates;
  for (auto& [route, of_route] : by_route) {
    std::ranges::move(of_route, std::back_inserter(candidates));
  }
  for (const Found& each : found) std::ranges::copy(each.of_groups, std::back_inserter(candidates));
  if (cluster != nullptr) {
    const std::vector<double> seconds = in_parallel(candidates.size(), [&](std::size_t index) {
      return seconds_of(candidates[index].candidate.config, topology, source_vocab_size, *cluster);
    });
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].candidate.seconds = seconds[i];
      candidates[i].over_link = 0;
    }
  }
  std::vector<Planned> best;
  for (Planned& each : candidates) add_best(best, std::move(each));
  for (Planned& each : best) result.best.push_back(std::move(each.candidate));
  return result;
}

}  // namespace zeropp::plan
