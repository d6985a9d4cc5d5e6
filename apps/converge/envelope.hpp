// Envelope of plain gradient descent with codecs: how far they may carry it from its closed form,
// step by step.
//
// Descent with step size h on the quadratic (lib/model/quadratic.hpp) goes w <- w - h g(w), with
// g_p(w) = (a_p (w_p - c_p) + t s_p) / P: linear in w, so that its exact trajectory v is known.
// A training differs from it in three ways. Weights are gathered as w + e, |e| within the weight
// codec's bound. The mean gradient over ranks arrives as g + f, f within the gradient codecs'
// bounds, hop by hop. The updates round in fp32: r. With d = |w - v| (2-norm over the parameters)
// and A = diag(a):
//
//   d' <= max_p |1 - h a_p / P| d + h (|A e| / P + |f|) + |r|
//
// Bounds of e and f come from Codec::error_bound() of the weights and gradients of this very step,
// block by block as the collectives lay them out: each rank's shard by itself (gather), each
// owner's part of a bucket by itself (reduce-scatter). A rotated block's errors have a norm that is
// smaller than their bounds together (Codec::rms_share()). Gradients are not observed: they are
// bounded by those at w plus what e can add. fp64; host; knows no engine and does not communicate.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"

namespace zeropp::converge {

/// Bound that a codec promises.
struct CodecBound {
  std::size_t block = 1;
  double rms_share = 1;
  std::function<double(float x, float absmax)> error;

  static CodecBound of(const codec::Codec& codec);
};

/// Parameters that a wire image holds, in its order.
using Image = std::vector<std::size_t>;

/// The problem and how it is spread.
struct Descent {
  std::vector<double> curvature;  ///< a, by parameter; P is their number
  double step_size = 0;           ///< h, as fp32 has it
  std::size_t ranks = 1;
  std::size_t ranks_per_node = 1;  ///< first hop among these, second across nodes
  std::vector<Image> gathered;     ///< images of the weights' gather
  std::vector<Image> reduced;      ///< images of a rank's gradients, one for each owner and bucket
  std::optional<CodecBound> weights;  ///< nothing: gathered as they are
  std::optional<CodecBound> first;    ///< hop of the gradients
  std::optional<CodecBound> second;
};

class Envelope {
 public:
  /// Throws Error(usage) where the step size is too large for the distance to stay bounded.
  explicit Envelope(Descent descent);

  /// Goes one step on. `weights` are those before the step, `gradients[rank]` the exact gradients
  /// there.
  void step(std::span<const float> weights, std::span<const std::vector<double>> gradients);

  /// Bound of |w - v| after the steps so far.
  [[nodiscard]] double bound() const { return bound_; }

 private:
  Descent descent_;
  double contraction_ = 0;
  double bound_ = 0;
};

}  // namespace zeropp::converge
