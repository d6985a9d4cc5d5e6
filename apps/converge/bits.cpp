#include "apps/converge/bits.hpp"

#include "kernels/codec/codec.hpp"
#include "lib/collective/collective.hpp"

namespace zeropp::converge {

namespace {

/// Of an image so long that its padding does not count.
double bits_of(const codec::CodecSpec& spec, Dtype plain) {
  constexpr std::size_t kValues = std::size_t{1} << 20U;
  return 8.0 * static_cast<double>(codec::Codec(spec, plain).wire_bytes(kValues)) / kValues;
}

}  // namespace

double weight_bits(const config::TrainConfig& config) {
  return bits_of(config.zero.quantized_weights ? config.zero.weight_codec : codec::CodecSpec{},
                 config.zero.compute);
}

double gradient_bits(const config::TrainConfig& config, const comm::Topology& topology) {
  const zero::Options& zero = config.zero;
  if (!zero.quantized_gradients) return bits_of({}, zero.compute);
  const double first = bits_of(zero.gradient_codec_intra, zero.compute);
  const double second = bits_of(zero.gradient_codec_inter, zero.compute);
  if (!collective::find_reduce_scatter(zero.reduce_scatter_algorithm).hierarchical) return first;
  // To each other rank of the node as many values as there are nodes, then one to each other node.
  const double nodes = topology.node_count;
  const double inside = (topology.ranks_per_node - 1) * nodes;
  const double across = nodes - 1;
  if (inside + across == 0) return first;
  return (first * inside + second * across) / (inside + across);
}

}  // namespace zeropp::converge
