// A model whose loss, gradient and minimum have closed forms: for tests of the engine. Units of any
// sizes, one layer each; parameter p counts over all units in order, P is their number.
//
//   loss(w) = (1 / P) sum over p of a_p (w_p - c_p)^2 / 2 + t s_p w_p
//   gradient_p = (a_p (w_p - c_p) + t s_p) / P        minimum_p = c_p - t s_p / a_p
//
// with curvature a_p in [1/2, 3/2), target c_p and slope s_p in [-1, 1) from a counter-based
// generator, and t the mean over the micro-batch's targets of target / vocabulary in [0, 1). t is
// what makes ranks and micro-steps differ: the mean gradient over batches of equal size is the
// gradient at the mean t. Under gradient descent with step size h the distance to the minimum
// shrinks by (1 - h a_p / P) a step.
//
// Host memory only; loss and gradient are computed in fp64 and stored as fp32.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/model/options.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Units and layers of the quadratic: a unit of one tensor, and a layer, for each of `unit_sizes`
/// (each > 0).
std::vector<zero::Unit> quadratic_units(const std::vector<std::size_t>& unit_sizes);
std::vector<zero::Layer> quadratic_layers(const std::vector<std::size_t>& unit_sizes);

/// Operations of forward and backward of a micro-batch: ten a parameter, counted by hand.
double quadratic_flops(std::size_t parameters);

class Quadratic final : public zero::UnitModel {
 public:
  /// Makes a model of quadratic_units(). `timers` outlives the model.
  Quadratic(const std::vector<std::size_t>& unit_sizes, std::size_t vocab_size,
            trace::Timers& timers);

  [[nodiscard]] const std::vector<zero::Unit>& units() const override { return units_; }
  [[nodiscard]] const std::vector<zero::Layer>& layers() const override { return layers_; }
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override;
  void forward(std::size_t layer, std::span<const ConstView> weights, StreamHandle stream) override;
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override;
  void take_loss(double* loss, StreamHandle stream) override;
  /// The operations of quadratic_flops(), which do not depend on the tokens.
  [[nodiscard]] double flops_per_token() const override;

  /// Tilt t of a batch with these targets.
  [[nodiscard]] double tilt(std::span<const std::int32_t> targets) const;
  static double curvature(std::size_t p);
  static double target(std::size_t p);
  static double slope(std::size_t p);
  /// Gradient of parameter p at weight w and tilt t.
  [[nodiscard]] double gradient(std::size_t p, double w, double t) const;
  /// Position of the first parameter of `unit` in the count over all units.
  [[nodiscard]] std::size_t first(std::size_t unit) const { return first_[unit]; }

 private:
  std::size_t vocab_;
  trace::Timers& timers_;
  std::vector<zero::Unit> units_;
  std::vector<zero::Layer> layers_;
  std::vector<std::size_t> first_;
  std::size_t parameters_ = 0;
  std::size_t tokens_ = 1;  ///< of the micro-batch that began
  double tilt_ = 0.0;
  double loss_scale_ = 1.0;
  double loss_ = 0.0;      ///< of the micro-batch, layers so far
  double loss_sum_ = 0.0;  ///< over micro-batches, until taken
};

}  // namespace zeropp::model
