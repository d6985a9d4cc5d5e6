#include "apps/converge/envelope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::converge {

namespace {

using Values = std::vector<double>;

constexpr double kHalfUlp = 0x1p-24;  ///< of fp32, relative

double norm(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void add(Values& sum, const Values& values, double factor = 1) {
  for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += factor * values[p];
}

/// Calls visit(parameters of a block) for each block of each image.
template <class Visit>
void for_each_block(const std::vector<Image>& images, std::size_t block, const Visit& visit) {
  for (const Image& image : images) {
    for (std::size_t first = 0; first < image.size(); first += block) {
      visit(std::span(image).subspan(first, std::min(block, image.size() - first)));
    }
  }
}

/// Largest error of each value when values no larger than `magnitudes` go through `codec`. fp64
/// magnitudes are rounded up on the way to the codec's fp32.
Values errors_of(const std::vector<Image>& images, const CodecBound& codec,
                 const Values& magnitudes) {
  const auto up = [](double x) { return static_cast<float>(x * (1 + 2 * kHalfUlp)); };
  Values errors(magnitudes.size(), 0.0);
  for_each_block(images, codec.block, [&](std::span<const std::size_t> block) {
    double largest = 0;
    for (const std::size_t p : block) largest = std::max(largest, magnitudes[p]);
    for (const std::size_t p : block) errors[p] = codec.error(up(magnitudes[p]), up(largest));
  });
  return errors;
}

/// Largest curvature of the block of each parameter: a block's errors are known together.
Values block_curvature(const Descent& descent) {
  Values largest = descent.curvature;
  for_each_block(descent.gathered, descent.weights->block, [&](std::span<const std::size_t> block) {
    double top = 0;
    for (const std::size_t p : block) top = std::max(top, descent.curvature[p]);
    for (const std::size_t p : block) largest[p] = top;
  });
  return largest;
}

}  // namespace

CodecBound CodecBound::of(const codec::Codec& codec) {
  return {codec.block(), codec.rms_share(),
          [codec](float x, float absmax) { return codec.error_bound(x, absmax); }};
}

Envelope::Envelope(Descent descent) : descent_(std::move(descent)) {
  const auto parameters = static_cast<double>(descent_.curvature.size());
  for (const double a : descent_.curvature) {
    contraction_ = std::max(contraction_, std::abs(1 - descent_.step_size * a / parameters));
  }
  if (contraction_ < 1) return;
  const double steepest = *std::ranges::max_element(descent_.curvature);
  throw Error(ExitCode::usage,
              fmt::format("optimizer.params.lr {}: descent on this quadratic does not come nearer "
                          "to its minimum in every direction: give one between 0 and {:.6g}",
                          descent_.step_size, 2 * parameters / steepest));
}

void Envelope::step(std::span<const float> weights,
                    std::span<const std::vector<double>> gradients) {
  const std::size_t count = descent_.curvature.size();
  const auto parameters = static_cast<double>(count);
  Values magnitude(count);
  for (std::size_t p = 0; p < count; ++p) magnitude[p] = std::abs(static_cast<double>(weights[p]));

  // A e / P, value by value for what gradients can be, and as a norm.
  Values by_weights(count, 0.0);
  double weights_norm = 0;
  if (descent_.weights) {
    const Values errors = errors_of(descent_.gathered, *descent_.weights, magnitude);
    const Values curvature = block_curvature(descent_);
    Values shared(count);
    for (std::size_t p = 0; p < count; ++p) {
      by_weights[p] = descent_.curvature[p] * errors[p] / parameters;
      shared[p] = curvature[p] * errors[p] * descent_.weights->rms_share / parameters;
    }
    weights_norm = norm(shared);
  }

  // Sums over ranks, node by node: what is added up, and the errors of both hops in it.
  Values total(count, 0.0);
  Values first_errors(count, 0.0);
  Values second_errors(count, 0.0);
  for (std::size_t node = 0; node < descent_.ranks; node += descent_.ranks_per_node) {
    Values sum(count, 0.0);
    for (std::size_t rank = node; rank < node + descent_.ranks_per_node; ++rank) {
      Values own(count);
      for (std::size_t p = 0; p < count; ++p) {
        own[p] = std::abs(gradients[rank][p]) + by_weights[p];
      }
      add(sum, own);
      if (!descent_.first) continue;
      const Values errors = errors_of(descent_.reduced, *descent_.first, own);
      add(sum, errors);
      add(first_errors, errors, descent_.first->rms_share);
    }
    add(total, sum);
    if (!descent_.second) continue;
    const Values errors = errors_of(descent_.reduced, *descent_.second, sum);
    add(total, errors);
    add(second_errors, errors, descent_.second->rms_share);
  }

  // Roundings are counted: each gradient is rounded once, each addition of the sums (and the
  // product in it), the mean, and the new weight.
  const auto ranks = static_cast<double>(descent_.ranks);
  const double h = descent_.step_size;
  Values rounding(count);
  for (std::size_t p = 0; p < count; ++p) {
    const double moved = h * total[p] / ranks;
    rounding[p] = kHalfUlp * (magnitude[p] + (2 * ranks + 4) * moved);
  }
  bound_ = contraction_ * bound_ +
           h * (weights_norm + (norm(first_errors) + norm(second_errors)) / ranks) + norm(rounding);
}

}  // namespace zeropp::converge
