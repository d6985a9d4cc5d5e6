// Second pass of the sums over rows that the gradients of biases and of layer normalisation are: a
// first pass has left a share of each sum for every part of the rows; the shares are added in a
// fixed order.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::nn::cuda_ops {

/// Device memory.
struct Shares {
  const float* share;  ///< [count, columns]
  View total;          ///< [columns], fp32 or 16 bits: rounded when the sum is complete
};

/// total[j] = (accumulate ? total[j] : 0) + sum over s of share[s, j], for one or two such sums of
/// one dtype at once.
void join_shares(StreamHandle, std::size_t count, std::size_t columns, bool accumulate,
                 std::initializer_list<Shares>);

}  // namespace zeropp::nn::cuda_ops
