// All configurations of a space, planned: those that are possible and fit into memory, with the
// bytes that they send and need, and which of them no other beats. Possible configurations are
// those that resolve() takes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/comm/topology.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

/// Codecs of the two hops of a reduction.
struct GradientChoice {
  codec::CodecSpec intra;
  codec::CodecSpec inter;
};

/// How weights are sent: whole, or as differences, which whole weights go before.
struct WeightChoice {
  codec::CodecSpec whole;
  std::optional<codec::CodecSpec> differences = {};  ///< of weight differences; nothing: off

  [[nodiscard]] bool quantized() const {
    return whole != codec::CodecSpec{} || differences.has_value();
  }
};

/// Choices of a search; every list has at least one entry. Without differences a codec "none" is
/// qwZ or qgZ off.
struct SearchSpace {
  std::vector<int> stages;
  std::vector<WeightChoice> weights;
  std::vector<GradientChoice> gradient_codecs;
  std::vector<std::size_t> hpz_sizes;
  std::vector<std::string> all_gathers;
  std::vector<std::string> reduce_scatters;
  std::vector<bool> recompute;
  std::vector<std::size_t> micro_batches;  ///< sequences; of the batch of a rank, what divides it
  /// Ranks of a shard group: zero::kAllRanks, or for hybrid sharding those of a node. Groups are
  /// tried at stage 3, with whole weights and without hpZ, where the space has these, and with the
  /// algorithms that the base names.
  std::vector<std::size_t> shard_groups = {zero::kAllRanks};
};

/// Every stage; integers of 8, 6 and 4 bits, and weight differences in config's codec of these,
/// after whole weights in 8 bits: wider differences send more, and no loss that was measured asks
/// for them; hpZ in parts of a node, nodes, and powers of two of them; every algorithm;
/// activations kept or not; micro-batches that divide what a rank has of
/// config.train_batch_size (a sequence where that is 0), in powers of two; and hybrid sharding over
/// the ranks of a node.
/// Images of weights are kept as config says: they make a planned step shorter by a thousandth at
/// most, and would double the rows.
SearchSpace whole_space(const config::TrainConfig& config, const comm::Topology& topology,
                        const config::Machine& machine);

/// A configuration of the space, with its traffic and memory.
struct Candidate {
  config::TrainConfig config;  ///< resolved
  comm::Bytes step;            ///< over all ranks; kUncounted (saturating.hpp) for more
  std::size_t memory = 0;      ///< bytes of a rank
  /// Bits of a whole weight on the wire between ranks, scales included. The bits of a weight
  /// difference do not count: a difference is smaller than a weight, and loses less in as many
  /// bits.
  double weight_bits = 0;
  double gradient_bits = 0;       ///< of a gradient, on the hop with fewer
  double hardware_flops = 0;      ///< a step, over all ranks: with what is computed again
  std::optional<double> seconds;  ///< of a step, where there is a cluster
};

struct SearchLimits {
  std::size_t memory = 0;  ///< bytes of a rank; 0: no limit
  double weight_bits = 0;  ///< at least, of a whole weight, also where differences follow
  double gradient_bits = 0;
};

struct SearchResult {
  std::size_t considered = 0;               ///< combinations of the space
  std::size_t possible = 0;                 ///< that resolve() takes, each once
  std::size_t fitting = 0;                  ///< within the limits
  std::optional<std::size_t> least_memory;  ///< bytes of a rank, of those that keep enough bits
  /// Messages of resolve() for the combinations that it refused, each with its count.
  std::map<std::string, std::size_t> refusals;
  /// Pareto-optimal candidates that fit, in bytes inside and across nodes, operations, memory, bits
  /// and, with a cluster, time; of equal ones the first. Not sorted.
  std::vector<Candidate> best;
};

/// `base`: all that the space does not choose, not resolved. With a `cluster` times are worked out
/// of the candidates of each stage and pair of algorithms, with and without weight differences,
/// that no other of these beats without a time, where bytes between the GPU and hpZ's copies on the
/// host count as well, and of all hybrid sharding. Threads share the work; the result is the same
/// with any number of them. Throws Error(usage) for adaptive bits, a codec schedule, error
/// feedback, measured errors and evaluations before every step, which are not searched over.
SearchResult search(const config::TrainConfig& base, const SearchSpace& space,
                    const comm::Topology& topology, const config::Machine& machine,
                    std::size_t source_vocab_size, const SearchLimits& limits,
                    const Cluster* cluster = nullptr);

}  // namespace zeropp::plan
