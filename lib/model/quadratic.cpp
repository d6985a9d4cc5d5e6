#include "lib/model/quadratic.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::model {

namespace {
using Category = trace::Timers::Category;

constexpr std::uint64_t kKey = 0x7175616472617469U;  // of all constants: the problem never changes

double uniform(std::size_t p, int word) {
  return static_cast<double>(uniform01(philox4x32(kKey, p, 0).word[word]));
}
}  // namespace

std::vector<zero::Unit> quadratic_units(const std::vector<std::size_t>& unit_sizes) {
  std::vector<zero::Unit> units;
  for (std::size_t i = 0; i < unit_sizes.size(); ++i) {
    const std::string name = "q." + std::to_string(i);
    units.push_back(zero::layout_unit(name, {{.name = name + ".weight",
                                              .shape = {unit_sizes[i]},
                                              .init = {.constant = 0.0F, .scale = 1.0F},
                                              .decay = true}}));
  }
  return units;
}

std::vector<zero::Layer> quadratic_layers(const std::vector<std::size_t>& unit_sizes) {
  std::vector<zero::Layer> layers;
  for (std::size_t i = 0; i < unit_sizes.size(); ++i) {
    layers.push_back({"q." + std::to_string(i), {i}});
  }
  return layers;
}

double quadratic_flops(std::size_t parameters) { return 10.0 * static_cast<double>(parameters); }

double Quadratic::curvature(std::size_t p) { return 0.5 + uniform(p, 0); }
double Quadratic::target(std::size_t p) { return 2.0 * uniform(p, 1) - 1.0; }
double Quadratic::slope(std::size_t p) { return 2.0 * uniform(p, 2) - 1.0; }

double Quadratic::gradient(std::size_t p, double w, double t) const {
  return (curvature(p) * (w - target(p)) + t * slope(p)) / static_cast<double>(parameters_);
}

Quadratic::Quadratic(const std::vector<std::size_t>& unit_sizes, std::size_t vocab_size,
                     trace::Timers& timers)
    : vocab_(vocab_size),
      timers_(timers),
      units_(quadratic_units(unit_sizes)),
      layers_(quadratic_layers(unit_sizes)) {
  for (const std::size_t size : unit_sizes) {
    first_.push_back(parameters_);
    parameters_ += size;
  }
}

double Quadratic::tilt(std::span<const std::int32_t> targets) const {
  double sum = 0.0;
  for (const std::int32_t token : targets) sum += static_cast<double>(token);
  return sum / (static_cast<double>(targets.size()) * static_cast<double>(vocab_));
}

void Quadratic::begin(const zero::Batch& batch, bool /*train*/, StreamHandle /*stream*/) {
  tokens_ = batch.tokens.size();
  tilt_ = tilt(batch.targets);
  loss_scale_ = static_cast<double>(batch.loss_scale);
  loss_ = 0.0;
}

void Quadratic::forward(std::size_t layer, std::span<const ConstView> weights,
                        StreamHandle /*stream*/) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  with_type(weights[0].dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const values = weights[0].as<T>();
    double sum = 0.0;
    for (std::size_t i = 0; i < units_[layer].parameters(); ++i) {
      const std::size_t p = first_[layer] + i;
      const double w = static_cast<double>(to_float(values[i]));
      const double distance = w - target(p);
      sum += 0.5 * curvature(p) * distance * distance + tilt_ * slope(p) * w;
    }
    loss_ += sum / static_cast<double>(parameters_);
  });
  if (layer + 1 == layers_.size()) loss_sum_ += loss_;
}

void Quadratic::backward(std::size_t layer, std::span<const ConstView> weights,
                         std::span<const zero::Gradient> gradients, StreamHandle /*stream*/) {
  const trace::Timers::Scope scope(timers_, Category::nn);
  with_type(weights[0].dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const values = weights[0].as<T>();
    auto* const d = gradients[0].values.as<float>();
    if (gradients[0].fresh) std::fill_n(d, units_[layer].parameters(), 0.0F);
    for (std::size_t i = 0; i < units_[layer].parameters(); ++i) {
      const double w = static_cast<double>(to_float(values[i]));
      d[i] += static_cast<float>(loss_scale_ * gradient(first_[layer] + i, w, tilt_));
    }
  });
}

void Quadratic::take_loss(double* loss, StreamHandle /*stream*/) {
  *loss = std::exchange(loss_sum_, 0.0);
}

double Quadratic::flops_per_token() const {
  return quadratic_flops(parameters_) / static_cast<double>(tokens_);
}

}  // namespace zeropp::model
