// How long a GPU computes: the layers of a transformer from the operations that they have and the
// rates that products and attention of such a shape reach, everything else from the memory that it
// moves. Pure functions; seconds of one micro-batch.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/core/dtype.hpp"
#include "lib/model/options.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

struct LayerCost {
  double forward = 0;
  double backward = 0;

  LayerCost& operator+=(const LayerCost& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

/// Rates of a GPU that apply to a product [rows, in] x [out, in]: those of the row with the nearest
/// shape, by the sum of the squared logarithms of the ratios.
const ProductRate& nearest_product(const Gpu& gpu, std::size_t rows, std::size_t in,
                                   std::size_t out);
/// Rates of a GPU that apply to attention: those of the row with the nearest sequence length and
/// head size, by the sum of the squared logarithms of the ratios.
const AttentionRate& nearest_attention(const Gpu& gpu, std::size_t sequence, std::size_t head_size);

/// By layer, as model::transformer_layers() has them: embedding, blocks, head. `model` is a
/// transformer with its vocabulary known; throws Error(usage) for any other model.
std::vector<LayerCost> layer_costs(const model::Options& model, std::size_t micro_batch,
                                   Dtype compute, const Gpu& gpu);

/// Time that is left of the running product of a block when a kernel comes at any time: the mean,
/// seconds. Arguments as above.
double product_rest(const model::Options& model, std::size_t micro_batch, Dtype compute,
                    const Gpu& gpu);

/// Adds to `costs`, layer_costs() of the same arguments, what compute waits for inputs of blocks
/// that are copied to the host and back beside it: cpu_checkpointing. `link_rate`: bytes/s of the
/// GPU's link to the host, above 0.
void add_input_copies(std::vector<LayerCost>& costs, const model::Options& model,
                      std::size_t micro_batch, Dtype compute, double link_rate);

}  // namespace zeropp::plan
