// Matrix products of a GPT's linear layers with their epilogues: queries, keys and values; the
// layer before and after the GELU; the head.
#include "apps/kernels/linear.hpp"

#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

using nn::LinearShape;

constexpr std::size_t kLooks = 64;

double bytes(std::size_t count, Dtype dtype) { return static_cast<double>(count * size_of(dtype)); }

double product_operations(const LinearShape& s) {
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
}

Arithmetic arithmetic_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? Arithmetic::fp32 : Arithmetic::bf16;
}

/// gelu(x) = x Phi(x) with the tanh form of Phi, in fp64.
double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double du = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  const double t = std::tanh(u);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * du;
}

/// The arrays of a layer, as functions of their place.
struct Layer {
  Layer(const LinearShape& shape_, const Epilogue& epilogue_, Dtype compute_, Dtype activation_,
        const Source& source)
      : shape(shape_),
        epilogue(epilogue_),
        compute(compute_),
        activation(activation_),
        x(source.normals(1, activation)),
        weight(source.normals(2, compute, 1 / std::sqrt(static_cast<float>(shape.in)))),
        bias(source.normals(3, compute)),
        residual(source.normals(4, activation)),
        dy(source.normals(5, activation)),
        pre(source.normals(6, activation)) {}

  [[nodiscard]] std::size_t inputs() const { return shape.rows * shape.in; }
  [[nodiscard]] std::size_t weights() const { return shape.in * shape.out; }
  /// Number of elements of y, with the padding of its rows.
  [[nodiscard]] std::size_t outputs() const { return shape.rows * shape.stride(); }

  LinearShape shape;
  Epilogue epilogue;
  Dtype compute;
  Dtype activation;
  Values x, weight, bias, residual, dy, pre;
};

/// A sum in fp64, and the size of what it is made of.
struct Sum {
  double value = 0;
  double squares = 0;
  void add(double term) {
    value += term;
    squares += term * term;
  }
  /// Tolerance of a result in `dtype`.
  [[nodiscard]] double tolerance(Dtype dtype) const {
    return tolerance_of(dtype) * (std::abs(value) + std::sqrt(squares));
  }
};

/// The forward result x W^T + bias + residual at [row, j].
Sum forward_at(const Layer& l, std::size_t row, std::size_t j) {
  Sum sum;
  for (std::size_t k = 0; k < l.shape.in; ++k) {
    sum.add(static_cast<double>(l.x(row * l.shape.in + k)) * l.weight(j * l.shape.in + k));
  }
  if (l.epilogue.bias) sum.add(l.bias(j));
  if (l.epilogue.residual) sum.add(l.residual(row * l.shape.stride() + j));
  return sum;
}

enum ForwardArray : std::size_t { kX, kWeight, kBias, kResidual, kPre, kY, kForwardSpace };

std::string check_forward(const Layer& l, const Results& results) {
  Verdict verdict;
  const LinearShape& s = l.shape;
  const Result y = results[kY];
  const Result pre = results[kPre];
  verdict.written(y, s.rows, s.out, s.stride());
  if (l.epilogue.gelu) verdict.written(pre, s.rows, s.out, s.stride());
  for (const std::size_t place : some_of(s.rows * s.out, kLooks)) {
    const std::size_t row = place / s.out;
    const std::size_t j = place % s.out;
    const std::size_t at = row * s.stride() + j;
    const Sum sum = forward_at(l, row, j);
    const double tolerance = sum.tolerance(l.activation);
    verdict.close(l.epilogue.gelu ? pre : y, at, sum.value, tolerance);
    if (l.epilogue.gelu) verdict.close(y, at, gelu(sum.value), 2 * tolerance);
  }
  return verdict.text();
}

enum BackwardArray : std::size_t {
  kDy,
  kInput,
  kBackWeight,
  kGeluInput,
  kDx,
  kDWeight,
  kDBias,
  kBackSpace
};

void check_dx(const Layer& l, const Result& dx, Verdict& verdict) {
  const LinearShape& s = l.shape;
  for (const std::size_t place : some_of(l.inputs(), kLooks)) {
    Sum sum;
    for (std::size_t j = 0; j < s.out; ++j) {
      sum.add(static_cast<double>(l.dy(place / s.in * s.stride() + j)) *
              l.weight(j * s.in + place % s.in));
    }
    const double slope = l.epilogue.gelu ? gelu_slope(l.pre(place)) : 1.0;
    verdict.close(dx, place, slope * sum.value, 2 * sum.tolerance(l.activation));
  }
}

std::string check_backward(const Layer& l, const Results& results) {
  constexpr Dtype kSums = Dtype::fp32;  // of gradients of weights
  Verdict verdict;
  const LinearShape& s = l.shape;
  const Result dx = results[kDx];
  const Result d_weight = results[kDWeight];
  const Result d_bias = results[kDBias];
  for (const Result* result : {&dx, &d_weight, &d_bias}) verdict.written(*result);
  check_dx(l, dx, verdict);
  for (const std::size_t place : some_of(l.weights(), kLooks)) {
    Sum sum;
    for (std::size_t row = 0; row < s.rows; ++row) {
      sum.add(static_cast<double>(l.dy(row * s.stride() + place / s.in)) *
              l.x(row * s.in + place % s.in));
    }
    verdict.close(d_weight, place, sum.value, 10 * sum.tolerance(kSums));
  }
  for (const std::size_t j : some_of(l.epilogue.bias ? s.out : 0, kLooks)) {
    Sum sum;
    for (std::size_t row = 0; row < s.rows; ++row) sum.add(l.dy(row * s.stride() + j));
    verdict.close(d_bias, j, sum.value, 10 * sum.tolerance(kSums));
  }
  return verdict.text();
}

}  // namespace

Problem linear_forward_of(const LinearShape& shape, const Epilogue& epilogue, Dtype compute,
                          const Source& source, const ComputeDevice& device) {
  const Dtype activation = device.nn->activation_dtype(compute);
  const Layer l(shape, epilogue, compute, activation, source);
  const std::size_t results = shape.rows * shape.out;
  const auto when = [](bool is, std::size_t count) { return is ? count : 0; };
  return {.work = {.read = bytes(l.inputs(), activation) +
                           bytes(l.weights() + when(epilogue.bias, shape.out), compute) +
                           bytes(when(epilogue.residual, results), activation),
                   .written = bytes(results + when(epilogue.gelu, results), activation),
                   .operations = product_operations(shape),
                   .arithmetic = arithmetic_of(activation)},
          .arrays = {{"x", l.inputs(), activation, filled_with(l.x)},
                     {"weight", l.weights(), compute, filled_with(l.weight)},
                     {"bias", when(epilogue.bias, shape.out), compute, filled_with(l.bias)},
                     {"residual", when(epilogue.residual, l.outputs()), activation,
                      filled_with(l.residual)},
                     {"pre", when(epilogue.gelu, l.outputs()), activation},
                     {"y", l.outputs(), activation},
                     workspace_of(device.nn->linear_workspace(shape, compute))},
          .bind = [shape, epilogue](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, shape, epilogue, ops = on.nn](StreamHandle stream) {
              const nn::NnContext context{.stream = stream, .workspace = set[kForwardSpace]};
              if (epilogue.gelu) {
                ops->linear_gelu_forward(context, shape, set[kX], set[kWeight], set[kBias],
                                         set[kPre], set[kY]);
              } else {
                ops->linear_forward(context, shape, set[kX], set[kWeight], set[kBias],
                                    set[kResidual], set[kY]);
              }
            };
          },
          .check = [l](const Results& got) { return check_forward(l, got); }};
}

Problem linear_backward_of(const LinearShape& shape, const Epilogue& epilogue, Dtype compute,
                           const Source& source, const ComputeDevice& device) {
  const Dtype activation = device.nn->activation_dtype(compute);
  const Layer l(shape, epilogue, compute, activation, source);
  const auto when = [](bool is, std::size_t count) { return is ? count : 0; };
  return {
      .work = {.read = bytes(shape.rows * shape.out + l.inputs() + when(epilogue.gelu, l.inputs()),
                             activation) +
                       bytes(l.weights(), compute),
               .written = bytes(l.inputs(), activation) +
                          bytes(l.weights() + when(epilogue.bias, shape.out), Dtype::fp32),
               .operations = 2 * product_operations(shape),
               .arithmetic = arithmetic_of(activation)},
      .arrays = {{"dy", l.outputs(), activation, filled_with(l.dy)},
                 {"x", l.inputs(), activation, filled_with(l.x)},
                 {"weight", l.weights(), compute, filled_with(l.weight)},
                 {"gelu input", when(epilogue.gelu, l.inputs()), activation, filled_with(l.pre)},
                 {"dx", l.inputs(), activation},
                 {"d_weight", l.weights()},
                 {"d_bias", when(epilogue.bias, shape.out)},
                 workspace_of(device.nn->linear_workspace(shape, compute))},
      .bind = [shape](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
        return [&set, shape, ops = on.nn](StreamHandle stream) {
          ops->linear_backward({.stream = stream, .workspace = set[kBackSpace]}, shape, set[kDy],
                               set[kInput], set[kBackWeight], set[kGeluInput], set[kDx], false,
                               set[kDWeight], set[kDBias]);
        };
      },
      .check = [l](const Results& got) { return check_backward(l, got); }};
}

namespace {

/// A linear layer of the GPT, in hidden sizes; out 0: the vocabulary.
struct LayerKind {
  Epilogue epilogue;
  std::size_t in;
  std::size_t out;
};

constexpr LayerKind kForwards[] = {
    {{.name = "bias", .bias = true}, 1, 3},
    {{.name = "bias+residual", .bias = true, .residual = true}, 4, 1},
    {{.name = "head"}, 1, 0}};
constexpr LayerKind kGeluForwards[] = {{{.name = "bias+gelu", .bias = true, .gelu = true}, 1, 4}};
constexpr LayerKind kBackwards[] = {{{.name = "bias", .bias = true}, 1, 3},
                                    {{.name = "bias+gelu", .bias = true, .gelu = true}, 4, 1},
                                    {{.name = "head"}, 1, 0}};

LinearShape shape_of(const LayerKind& kind, const Block& block, const ComputeDevice& device) {
  const std::size_t hidden = block.shape.hidden;
  LinearShape shape{block.shape.rows(), kind.in * hidden, kind.out * hidden, 0};
  if (kind.out == 0) {
    shape.out = block.vocab;
    shape.out_stride = device.nn->logits_stride(block.vocab);
  }
  return shape;
}

using Make = Problem (*)(const LinearShape&, const Epilogue&, Dtype, const Source&,
                         const ComputeDevice&);

std::vector<Case> layers(const Choice& choice, const Kernel& kernel,
                         std::span<const LayerKind> kinds, Make make) {
  std::vector<Case> cases;
  for (const LayerKind& kind : kinds) {
    const auto label = [kind](const Block& block) {
      const std::size_t hidden = block.shape.hidden;
      return block.rows_by(kind.in * hidden) + 'x' +
             std::to_string(kind.out == 0 ? block.vocab : kind.out * hidden);
    };
    std::ranges::move(block_cases(choice, kernel, kind.epilogue.name, label,
                                  [kind, make](const Block& block, const ComputeDevice& device) {
                                    return make(shape_of(kind, block, device), kind.epilogue,
                                                block.compute, block.source, device);
                                  }),
                      std::back_inserter(cases));
  }
  return cases;
}

}  // namespace

const Kernel linear_forward{"linear_forward", "a matrix product with its epilogue",
                            [](const Choice& choice) {
                              return layers(choice, linear_forward, kForwards, linear_forward_of);
                            }};
const Kernel linear_gelu_forward{
    "linear_gelu_forward", "a matrix product, then its GELU", [](const Choice& choice) {
      return layers(choice, linear_gelu_forward, kGeluForwards, linear_forward_of);
    }};
const Kernel linear_backward{
    "linear_backward", "the gradients of input, weight and bias: two products",
    [](const Choice& choice) {
      return layers(choice, linear_backward, kBackwards, linear_backward_of);
    }};

}  // namespace zeropp::kernels
