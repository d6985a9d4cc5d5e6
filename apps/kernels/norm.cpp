// Layer and RMS normalisation, forward and backward; in a block the backward adds to the gradient
// of the residual stream, variant "add".
#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

using nn::NnContext;

constexpr std::size_t kLooks = 64;  // rows, and columns

enum class Kind : bool { layer, rms };

/// Arrays of one normalisation, as functions of their place.
struct Layer {
  Layer(const Block& block, Dtype activation, Kind kind)
      : centred(kind == Kind::layer),
        rows(block.shape.rows()),
        hidden(block.shape.hidden),
        x(block.source.normals(1, activation)),
        dy(block.source.normals(2, activation)),
        dx(block.source.normals(3, activation)),
        weight(block.source.normals(4, block.compute)),
        bias(block.source.normals(5, block.compute)) {}

  struct Moments {
    double mean;
    double rstd;
  };
  [[nodiscard]] Moments moments(std::size_t row) const {
    double mean = 0;
    double squares = 0;
    for (std::size_t j = 0; centred && j < hidden; ++j) mean += x(row * hidden + j);
    mean /= static_cast<double>(hidden);
    for (std::size_t j = 0; j < hidden; ++j) {
      const double off = x(row * hidden + j) - mean;
      squares += off * off;
    }
    return {mean, 1 / std::sqrt(squares / static_cast<double>(hidden) + 1e-5)};
  }
  [[nodiscard]] double normalized(std::size_t row, std::size_t j, const Moments& of) const {
    return (x(row * hidden + j) - of.mean) * of.rstd;
  }

  [[nodiscard]] nn::NormShape shape() const { return {rows, hidden, 1e-5F}; }
  /// Elements of what layer normalisation alone has.
  [[nodiscard]] std::size_t of_centred(std::size_t count) const { return centred ? count : 0; }

  bool centred;
  std::size_t rows;
  std::size_t hidden;
  Values x, dy, dx, weight, bias;
};

double bytes(std::size_t count, Dtype dtype) { return static_cast<double>(count * size_of(dtype)); }

std::string check_forward(const Layer& layer, Dtype activation, const Results& results) {
  Verdict verdict;
  const Result y = results[3];
  const Result mean = results[4];
  const Result rstd = results[5];
  for (const Result* result : {&y, &mean, &rstd}) verdict.written(*result);
  for (const std::size_t row : some_of(layer.rows, kLooks)) {
    const Layer::Moments wanted = layer.moments(row);
    if (layer.centred) verdict.close(mean, row, wanted.mean, 1e-5);
    verdict.close(rstd, row, wanted.rstd, 1e-4 * wanted.rstd);
    for (std::size_t j = 0; j < layer.hidden; ++j) {
      const double scaled = layer.normalized(row, j, wanted) * layer.weight(j);
      const double bias = layer.centred ? layer.bias(j) : 0.0;
      verdict.close(y, row * layer.hidden + j, scaled + bias,
                    tolerance_of(activation) * (std::abs(scaled) + std::abs(bias) + 1e-3));
    }
  }
  return verdict.text();
}

Problem forward_of(const Block& block, const ComputeDevice& device, Kind kind) {
  const Dtype activation = block.activation(device);
  const Layer layer(block, activation, kind);
  const std::size_t rows = layer.rows;
  const std::size_t hidden = layer.hidden;
  const std::size_t n = rows * hidden;
  constexpr double kOperations = 8;
  return {
      .work = {.read =
                   bytes(n, activation) + bytes(hidden + layer.of_centred(hidden), block.compute),
               .written = bytes(n, activation) + bytes(rows + layer.of_centred(rows), Dtype::fp32),
               .operations = kOperations * static_cast<double>(n)},
      .arrays = {{"x", n, activation, filled_with(layer.x)},
                 {"weight", hidden, block.compute, filled_with(layer.weight)},
                 {"bias", layer.of_centred(hidden), block.compute, filled_with(layer.bias)},
                 {"y", n, activation},
                 {"mean", layer.of_centred(rows)},
                 {"rstd", rows},
                 workspace_of(device.nn->norm_workspace(rows, hidden))},
      .bind = [shape = layer.shape()](const Set& set, const ComputeDevice& on,
                                      StreamHandle) -> Call {
        return [&set, shape, ops = on.nn](StreamHandle stream) {
          ops->norm_forward({.stream = stream, .workspace = set[6]}, shape, set[0], set[1], set[2],
                            set[3], set[4], set[5]);
        };
      },
      .check = [=](const Results& results) { return check_forward(layer, activation, results); }};
}

enum BackwardArray : std::size_t { kDy, kX, kWeight, kMean, kRstd, kDx, kDWeight, kDBias, kSpace };

void check_dx(const Layer& layer, Dtype activation, bool adds, const Result& dx, Verdict& verdict) {
  const std::size_t hidden = layer.hidden;
  for (const std::size_t row : some_of(layer.rows, kLooks)) {
    const Layer::Moments moments = layer.moments(row);
    double mean_g = 0;
    double mean_gn = 0;
    const auto g = [&](std::size_t j) {
      return static_cast<double>(layer.dy(row * hidden + j)) * layer.weight(j);
    };
    for (std::size_t j = 0; j < hidden; ++j) {
      if (layer.centred) mean_g += g(j) / static_cast<double>(hidden);
      mean_gn += g(j) * layer.normalized(row, j, moments) / static_cast<double>(hidden);
    }
    for (std::size_t j = 0; j < hidden; ++j) {
      const double added = adds ? layer.dx(row * hidden + j) : 0.0;
      const double step =
          moments.rstd * (g(j) - mean_g - layer.normalized(row, j, moments) * mean_gn);
      verdict.close(
          dx, row * hidden + j, added + step,
          tolerance_of(activation) * (std::abs(added) + std::abs(step) + std::abs(g(j)) + 0.1));
    }
  }
}

std::string check_backward(const Layer& layer, Dtype activation, bool adds,
                           const Results& results) {
  Verdict verdict;
  const Result dx = results[kDx];
  const Result d_weight = results[kDWeight];
  const Result d_bias = results[kDBias];
  for (const Result* result : {&dx, &d_weight, &d_bias}) verdict.written(*result);
  check_dx(layer, activation, adds, dx, verdict);
  std::vector<Layer::Moments> moments;
  for (std::size_t row = 0; row < layer.rows; ++row) moments.push_back(layer.moments(row));
  const double typical = std::sqrt(static_cast<double>(layer.rows));
  for (const std::size_t j : some_of(layer.hidden, kLooks)) {
    double weight = 0;
    double bias = 0;
    for (std::size_t row = 0; row < layer.rows; ++row) {
      const double dy = layer.dy(row * layer.hidden + j);
      weight += dy * layer.normalized(row, j, moments[row]);
      bias += dy;
    }
    verdict.close(d_weight, j, weight, 1e-3 * (std::abs(weight) + typical));
    if (layer.centred) verdict.close(d_bias, j, bias, 1e-3 * (std::abs(bias) + typical));
  }
  return verdict.text();
}

Problem backward_of(const Block& block, const ComputeDevice& device, Kind kind, bool adds) {
  const Dtype activation = block.activation(device);
  const Layer layer(block, activation, kind);
  const std::size_t rows = layer.rows;
  const std::size_t hidden = layer.hidden;
  const std::size_t n = rows * hidden;
  constexpr double kOperations = 14;
  const auto moment = [layer](double Layer::Moments::*member) {
    return [layer, member](View memory, std::size_t) {
      for (std::size_t row = 0; row < memory.count; ++row) {
        memory.as<float>()[row] = static_cast<float>(layer.moments(row).*member);
      }
    };
  };
  Array dx{"dx", n, activation};
  if (adds) dx.fill = filled_with(layer.dx);
  return {
      .work = {.read = bytes((adds ? 3 : 2) * n, activation) + bytes(hidden, block.compute) +
                       bytes(rows + layer.of_centred(rows), Dtype::fp32),
               .written =
                   bytes(n, activation) + bytes(hidden + layer.of_centred(hidden), Dtype::fp32),
               .operations = kOperations * static_cast<double>(n)},
      .arrays = {{"dy", n, activation, filled_with(layer.dy)},
                 {"x", n, activation, filled_with(layer.x)},
                 {"weight", hidden, block.compute, filled_with(layer.weight)},
                 {"mean", layer.of_centred(rows), Dtype::fp32, moment(&Layer::Moments::mean)},
                 {"rstd", rows, Dtype::fp32, moment(&Layer::Moments::rstd)},
                 dx,
                 {"d_weight", hidden},
                 {"d_bias", layer.of_centred(hidden)},
                 workspace_of(device.nn->norm_workspace(rows, hidden))},
      .bind = [shape = layer.shape(), adds](const Set& set, const ComputeDevice& on,
                                            StreamHandle) -> Call {
        return [&set, shape, adds, ops = on.nn](StreamHandle stream) {
          ops->norm_backward({.stream = stream, .workspace = set[kSpace]}, shape, set[kDy], set[kX],
                             set[kWeight], set[kMean], set[kRstd], adds, set[kDx], false,
                             set[kDWeight], set[kDBias]);
        };
      },
      .check =
          [=](const Results& results) { return check_backward(layer, activation, adds, results); }};
}

std::string label(const Block& block) { return block.rows_by(block.shape.hidden); }

template <Kind kKind>
std::vector<Case> forwards(const Choice& choice, const Kernel& kernel) {
  return block_cases(choice, kernel, "-", label,
                     [](const Block& block, const ComputeDevice& device) {
                       return forward_of(block, device, kKind);
                     });
}

template <Kind kKind>
std::vector<Case> backwards(const Choice& choice, const Kernel& kernel) {
  std::vector<Case> cases;
  for (const bool adds : {false, true}) {
    std::ranges::move(block_cases(choice, kernel, adds ? "add" : "-", label,
                                  [adds](const Block& block, const ComputeDevice& device) {
                                    return backward_of(block, device, kKind, adds);
                                  }),
                      std::back_inserter(cases));
  }
  return cases;
}

}  // namespace

const Kernel layernorm_forward{
    "layernorm_forward", "layer normalisation",
    [](const Choice& choice) { return forwards<Kind::layer>(choice, layernorm_forward); }};
const Kernel layernorm_backward{
    "layernorm_backward", "its gradients; add: to the gradient of the residual stream",
    [](const Choice& choice) { return backwards<Kind::layer>(choice, layernorm_backward); }};
const Kernel rmsnorm_forward{"rmsnorm_forward", "RMS normalisation", [](const Choice& choice) {
                               return forwards<Kind::rms>(choice, rmsnorm_forward);
                             }};
const Kernel rmsnorm_backward{
    "rmsnorm_backward", "its gradients; add: to the gradient of the residual stream",
    [](const Choice& choice) { return backwards<Kind::rms>(choice, rmsnorm_backward); }};

}  // namespace zeropp::kernels
