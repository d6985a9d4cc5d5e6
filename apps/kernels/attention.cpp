// Causal self-attention, forward and backward, as the back end chooses it. One head of one sequence
// is checked whole, against fp64. Operations are those of the products over the lower triangle of
// the scores, diagonal included: 2 products forward, 5 backward, in which the scores are computed
// again.
#include <algorithm>
#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

using nn::AttentionShape;

constexpr double kForwardProducts = 2;
constexpr double kBackwardProducts = 5;

struct Inputs {
  Inputs(const Block& block, Dtype activation_)
      : shape(block.attention()),
        activation(activation_),
        qkv(block.source.normals(1, activation)),
        dy(block.source.normals(2, activation)) {}

  [[nodiscard]] std::size_t rows() const { return shape.sequences * shape.length; }
  [[nodiscard]] double bytes_of(std::size_t columns) const {
    return static_cast<double>(rows() * columns * size_of(activation));
  }
  [[nodiscard]] double operations(double products) const {
    const auto t = static_cast<double>(shape.length);
    return products * t * (t + 1) * static_cast<double>(shape.sequences * shape.queries());
  }

  AttentionShape shape;
  Dtype activation;
  Values qkv, dy;
};

using Matrix = std::vector<double>;  // [length, width] or [length, length]

/// One head of one sequence in fp64, from its equations (kernels/nn/nn_ops.hpp).
class Head {
 public:
  Head(const Inputs& in, std::size_t sequence, std::size_t head)
      : t_(in.shape.length),
        width_(in.shape.head_width),
        hidden_(in.shape.queries()),
        first_row_(sequence * t_),
        first_column_(head * width_),
        scale_(1 / std::sqrt(static_cast<double>(width_))) {
    for (std::size_t third = 0; third < 3; ++third) {
      qkv_[third] = matrix(in.qkv, 3 * hidden_, third * hidden_);
    }
    dy_ = matrix(in.dy, hidden_, 0);
    p_.resize(t_ * t_);
    for (std::size_t i = 0; i < t_; ++i) softmax(i);
  }

  /// Index of element [i, e] of this head in a matrix with so many columns.
  [[nodiscard]] std::size_t place(std::size_t i, std::size_t e, std::size_t columns,
                                  std::size_t first) const {
    return (first_row_ + i) * columns + first + first_column_ + e;
  }
  [[nodiscard]] std::size_t length() const { return t_; }
  [[nodiscard]] std::size_t width() const { return width_; }

  [[nodiscard]] Matrix y() const {
    Matrix result(t_ * width_);
    for (std::size_t i = 0; i < t_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) add(p_[i * t_ + j], qkv_[2], j, result, i);
    }
    return result;
  }

  /// Computes dQ, dK and dV into `d`.
  void backward(Matrix (&d)[3]) const {
    for (Matrix& matrix : d) matrix.assign(t_ * width_, 0.0);
    std::vector<double> dp(t_);
    for (std::size_t i = 0; i < t_; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        dp[j] = dot(dy_, i, qkv_[2], j);
        sum += dp[j] * p_[i * t_ + j];
      }
      for (std::size_t j = 0; j <= i; ++j) {
        const double p = p_[i * t_ + j];
        const double ds = p * (dp[j] - sum) * scale_;
        add(p, dy_, i, d[2], j);
        add(ds, qkv_[1], j, d[0], i);
        add(ds, qkv_[0], i, d[1], j);
      }
    }
  }

 private:
  [[nodiscard]] Matrix matrix(const Values& values, std::size_t columns, std::size_t first) const {
    Matrix result(t_ * width_);
    for (std::size_t i = 0; i < t_; ++i) {
      for (std::size_t e = 0; e < width_; ++e) {
        result[i * width_ + e] = values(place(i, e, columns, first));
      }
    }
    return result;
  }
  [[nodiscard]] double dot(const Matrix& a, std::size_t i, const Matrix& b, std::size_t j) const {
    double sum = 0;
    for (std::size_t e = 0; e < width_; ++e) sum += a[i * width_ + e] * b[j * width_ + e];
    return sum;
  }
  /// Adds: to[j] += factor * from[i].
  void add(double factor, const Matrix& from, std::size_t i, Matrix& to, std::size_t j) const {
    for (std::size_t e = 0; e < width_; ++e) to[j * width_ + e] += factor * from[i * width_ + e];
  }
  void softmax(std::size_t i) {
    double* const row = p_.data() + i * t_;
    double top = -INFINITY;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = dot(qkv_[0], i, qkv_[1], j) * scale_;
      top = std::max(top, row[j]);
    }
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::size_t j = 0; j <= i; ++j) row[j] /= sum;
  }

  std::size_t t_;
  std::size_t width_;
  std::size_t hidden_;
  std::size_t first_row_;
  std::size_t first_column_;
  double scale_;
  Matrix qkv_[3];
  Matrix dy_;
  Matrix p_;
};

/// The last head of the last sequence.
Head checked_head(const Inputs& in) { return {in, in.shape.sequences - 1, in.shape.heads - 1}; }

/// Compares the part of `got` that is this head's [length, width] with `wanted`.
void compare(const Head& head, const Matrix& wanted, const Result& got, std::size_t columns,
             std::size_t first, Dtype dtype, Verdict& verdict) {
  double squares = 0;
  for (const double value : wanted) squares += value * value;
  const double typical = std::sqrt(squares / static_cast<double>(wanted.size()));
  for (std::size_t i = 0; i < head.length(); ++i) {
    for (std::size_t e = 0; e < head.width(); ++e) {
      const double value = wanted[i * head.width() + e];
      verdict.close(got, head.place(i, e, columns, first), value,
                    4 * tolerance_of(dtype) * (std::abs(value) + typical + 1e-2));
    }
  }
}

std::size_t floats(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

enum Slot : std::size_t { kQkv, kY, kSaved, kSpace, kDy, kDQkv };

Problem forward_of(const Block& block, const ComputeDevice& device) {
  const Inputs in(block, block.activation(device));
  const std::size_t hidden = in.shape.queries();
  return {
      .work = {.read = in.bytes_of(3 * hidden),
               .written = in.bytes_of(hidden),
               .operations = in.operations(kForwardProducts),
               .arithmetic = in.activation == Dtype::fp32 ? Arithmetic::fp32 : Arithmetic::bf16},
      .arrays = {{"qkv", in.rows() * 3 * hidden, in.activation, filled_with(in.qkv)},
                 {"y", in.rows() * hidden, in.activation},
                 {"saved", floats(device.nn->attention_saved_bytes(in.shape, block.compute))},
                 workspace_of(device.nn->attention_workspace(in.shape, block.compute))},
      .bind = [in](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
        return [&set, in, ops = on.nn](StreamHandle stream) {
          ops->attention_forward({.stream = stream, .workspace = set[kSpace]}, in.shape, set[kQkv],
                                 set[kSaved], set[kY]);
        };
      },
      .check =
          [in, hidden](const Results& results) {
            Verdict verdict;
            const Result y = results[kY];
            verdict.written(y);
            const Head head = checked_head(in);
            compare(head, head.y(), y, hidden, 0, in.activation, verdict);
            return verdict.text();
          },
      .path = device.nn->attention_name(in.shape, block.compute)};
}

Problem backward_of(const Block& block, const ComputeDevice& device) {
  Problem problem = forward_of(block, device);
  const Inputs in(block, block.activation(device));
  const std::size_t hidden = in.shape.queries();
  problem.work.read = in.bytes_of(5 * hidden);
  problem.work.written = in.bytes_of(3 * hidden);
  problem.work.operations = in.operations(kBackwardProducts);
  problem.arrays.push_back({"dy", in.rows() * hidden, in.activation, filled_with(in.dy)});
  problem.arrays.push_back({"d_qkv", in.rows() * 3 * hidden, in.activation});
  // The forward leaves what the backward reads, once for each set.
  problem.bind = [in, forward = problem.bind](const Set& set, const ComputeDevice& on,
                                              StreamHandle preparing) -> Call {
    forward(set, on, preparing)(preparing);
    return [&set, in, ops = on.nn](StreamHandle stream) {
      ops->attention_backward({.stream = stream, .workspace = set[kSpace]}, in.shape, set[kDy],
                              set[kQkv], set[kSaved], set[kY], set[kDQkv]);
    };
  };
  problem.check = [in, hidden](const Results& results) {
    Verdict verdict;
    const Result d_qkv = results[kDQkv];
    verdict.written(d_qkv);
    const Head head = checked_head(in);
    Matrix wanted[3];
    head.backward(wanted);
    for (std::size_t third = 0; third < 3; ++third) {
      compare(head, wanted[third], d_qkv, 3 * hidden, third * hidden, in.activation, verdict);
    }
    return verdict.text();
  };
  return problem;
}

std::string label(const Block& block) { return block.by_heads(); }

}  // namespace

const Kernel attention_forward{
    "attention_forward", "causal attention: sequences x length x heads x width",
    [](const Choice& choice) {
      return block_cases(choice, attention_forward, "-", label, forward_of);
    }};
const Kernel attention_backward{"attention_backward", "its gradients", [](const Choice& choice) {
                                  return block_cases(choice, attention_backward, "-", label,
                                                     backward_of);
                                }};

}  // namespace zeropp::kernels
