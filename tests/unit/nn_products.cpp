// ctest: name=nn_products labels=sanitize
// Operations with matrix products, against plain loops in fp64: linear and attention.
#include "kernels/nn/math.hpp"
#include "kernels/nn/nn_ops.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;

const NnOps& product_ops = host_nn_ops();

/// Counts how often products began and ended.
struct Observer final : ProductObserver {
  void enter() override {
    ++entered;
    ++inside;
  }
  void leave() override { --inside; }
  int entered = 0;
  int inside = 0;
};

class Linear : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, Linear, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& entry) { return std::string(name_of(entry.param)); });

TEST_P(Linear, ForwardAndBackward) {
  for (const LinearShape shape : {LinearShape{1, 1, 1}, {3, 5, 7}, {17, 33, 65}, {2, 8, 1500}}) {
    const std::size_t rows = shape.rows;
    const std::size_t in = shape.in;
    const std::size_t out = shape.out;
    const Floats x = normals(rows * in, 1);
    const Weights weight(in * out, 2, GetParam());
    const Weights bias(out, 3, GetParam());
    const Floats residual = normals(rows * out, 4);
    const Floats dy = normals(rows * out, 5);
    Doubles product(rows * out);
    Doubles expected_dx(rows * in);
    Floats d_weight = normals(in * out, 6);
    Floats d_bias = normals(out, 7);
    Doubles expected_weight(d_weight.begin(), d_weight.end());
    Doubles expected_bias(d_bias.begin(), d_bias.end());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t o = 0; o < out; ++o) {
        const double g = d(dy[r * out + o]);
        expected_bias[o] += g;
        for (std::size_t i = 0; i < in; ++i) {
          product[r * out + o] += d(x[r * in + i]) * d(weight.wide[o * in + i]);
          expected_dx[r * in + i] += g * d(weight.wide[o * in + i]);
          expected_weight[o * in + i] += g * d(x[r * in + i]);
        }
      }
    }
    Floats workspace = poisoned(product_ops.linear_workspace(shape, GetParam()));
    Observer observer;
    const NnContext context{{}, &observer, view(workspace)};
    for (const bool with_bias : {false, true}) {
      for (const bool with_residual : {false, true}) {
        Doubles expected = product;
        for (std::size_t k = 0; k < expected.size(); ++k) {
          if (with_bias) expected[k] += d(bias.wide[k % out]);
          if (with_residual) expected[k] += d(residual[k]);
        }
        Floats y = poisoned(rows * out);
        product_ops.linear_forward(context, shape, view(x), weight.memory(),
                                   with_bias ? bias.memory() : ConstView{},
                                   with_residual ? view(residual) : ConstView{}, view(y));
        expect_close(y, expected, 2e-5, "y");
      }
    }
    EXPECT_EQ(observer.entered, 4);
    Floats dx = poisoned(rows * in);
    product_ops.linear_backward(context, shape, view(dy), view(x), weight.memory(), {}, view(dx),
                                true, view(d_weight), view(d_bias));
    EXPECT_EQ(observer.entered, 5);
    EXPECT_EQ(observer.inside, 0);
    expect_close(dx, expected_dx, 1e-4, "dx");
    expect_close(d_weight, expected_weight, 2e-5, "weight gradient");
    expect_close(d_bias, expected_bias, 2e-5, "bias gradient");
    // Without a bias, and added once more to the weight's gradient.
    product_ops.linear_backward(context, shape, view(dy), view(x), weight.memory(), {}, view(dx),
                                true, view(d_weight), {});
    expect_close(d_bias, expected_bias, 2e-5, "bias gradient left alone");

    // Written instead of added: the bits of a sum that begins with zeros.
    std::fill(d_weight.begin(), d_weight.end(), 0.0F);
    std::fill(d_bias.begin(), d_bias.end(), 0.0F);
    product_ops.linear_backward(context, shape, view(dy), view(x), weight.memory(), {}, view(dx),
                                true, view(d_weight), view(d_bias));
    Floats written_weight = poisoned(in * out);
    Floats written_bias = poisoned(out);
    product_ops.linear_backward(context, shape, view(dy), view(x), weight.memory(), {}, view(dx),
                                false, view(written_weight), view(written_bias));
    expect_same_bits(written_weight, d_weight, "weight gradient, written");
    expect_same_bits(written_bias, d_bias, "bias gradient, written");

    // In 16 bits: the same sums, rounded once; and added to what is there.
    for (const bool add : {false, true}) {
      Weights narrow_weight(in * out, 8, GetParam());
      Weights narrow_bias(out, 9, GetParam());
      const auto sums = [&](const Floats& before, const Floats& sum) {
        Floats total(sum);
        for (std::size_t i = 0; add && i < total.size(); ++i) total[i] += before[i];
        return loaded(stored(total, GetParam()), GetParam());
      };
      product_ops.linear_backward(context, shape, view(dy), view(x), weight.memory(), {}, view(dx),
                                  add, narrow_weight.view(), narrow_bias.view());
      if (!add || GetParam() != Dtype::fp32) {  // of fp32 the library adds as it multiplies
        expect_same_bits(narrow_weight.now(), sums(narrow_weight.wide, written_weight), "narrow");
      }
      if (!add) expect_same_bits(narrow_bias.now(), sums({}, written_bias), "narrow bias");
    }
  }
}

/// Rows of the output, its gradient and the residual further apart than they are long.
TEST_P(Linear, StridedRowsAndGelu) {
  const LinearShape plain{7, 12, 10};
  const LinearShape strided{7, 12, 10, 16};
  const LinearShape next{7, 10, 6};
  const Floats x = normals(plain.rows * plain.in, 1);
  const Weights weight(plain.in * plain.out, 2, GetParam());
  const Weights bias(plain.out, 3, GetParam());
  const Floats residual = normals(plain.rows * plain.out, 4);
  const auto spread = [&](const Floats& dense) {
    Floats wide = poisoned(strided.rows * strided.stride());
    for (std::size_t i = 0; i < dense.size(); ++i) {
      wide[i / plain.out * strided.stride() + i % plain.out] = dense[i];
    }
    return wide;
  };
  const auto bits = [](const Floats& values) {
    std::vector<std::uint32_t> result;
    for (const float value : values) result.push_back(bits_of(value));
    return result;
  };
  Floats workspace = poisoned(product_ops.linear_workspace(plain, GetParam()));
  const NnContext context{{}, nullptr, view(workspace)};
  Floats y = poisoned(plain.rows * plain.out);
  Floats y_strided = poisoned(strided.rows * strided.stride());
  product_ops.linear_forward(context, plain, view(x), weight.memory(), bias.memory(),
                             view(residual), view(y));
  const Floats residual_strided = spread(residual);
  product_ops.linear_forward(context, strided, view(x), weight.memory(), bias.memory(),
                             view(residual_strided), view(y_strided));
  EXPECT_EQ(bits(y_strided), bits(spread(y))) << "and nothing between the rows is written";

  Floats dx = poisoned(x.size());
  Floats dx_strided = dx;
  Floats d_weight = normals(plain.in * plain.out, 5);
  Floats d_weight_strided = d_weight;
  Floats d_bias = normals(plain.out, 6);
  Floats d_bias_strided = d_bias;
  const Floats y_spread = spread(y);
  product_ops.linear_backward(context, plain, view(std::as_const(y)), view(x), weight.memory(), {},
                              view(dx), true, view(d_weight), view(d_bias));
  product_ops.linear_backward(context, strided, view(y_spread), view(x), weight.memory(), {},
                              view(dx_strided), true, view(d_weight_strided), view(d_bias_strided));
  EXPECT_EQ(dx_strided, dx);
  EXPECT_EQ(d_weight_strided, d_weight);
  EXPECT_EQ(d_bias_strided, d_bias);

  Floats pre = poisoned(y.size());
  Floats activated = poisoned(y.size());
  Floats expected_pre = poisoned(y.size());
  product_ops.linear_forward(context, plain, view(x), weight.memory(), bias.memory(), {},
                             view(expected_pre));
  product_ops.linear_gelu_forward(context, plain, view(x), weight.memory(), bias.memory(),
                                  view(pre), view(activated));
  EXPECT_EQ(pre, expected_pre);
  for (std::size_t i = 0; i < pre.size(); ++i) EXPECT_EQ(activated[i], Gelu::value(pre[i]));

  const Weights second(next.in * next.out, 7, GetParam());
  const Floats dy = normals(next.rows * next.out, 8);
  Floats d_activated = poisoned(y.size());
  Floats d_pre = poisoned(y.size());
  Floats d_second(next.in * next.out);
  product_ops.linear_backward(context, next, view(dy), view(activated), second.memory(), {},
                              view(d_activated), true, view(d_second), {});
  product_ops.linear_backward(context, next, view(dy), view(activated), second.memory(), view(pre),
                              view(d_pre), true, view(d_second), {});
  for (std::size_t i = 0; i < pre.size(); ++i) {
    EXPECT_EQ(d_pre[i], d_activated[i] * Gelu::derivative(pre[i]));
  }
}

TEST_P(Linear, NarrowWeightsNeedTheWorkspace) {
  if (GetParam() == Dtype::fp32) {
    EXPECT_EQ(product_ops.linear_workspace({3, 10, 10}, Dtype::fp32), 0U);
    return;
  }
  const Floats x = normals(4, 1);
  const Weights weight(8, 2, GetParam());
  Floats y(2);
  EXPECT_THROW(product_ops.linear_forward({}, {1, 4, 2}, view(x), weight.memory(), {}, {}, view(y)),
               std::invalid_argument);
}

/// Attention by the definition, one query at a time.
struct Reference {
  Reference(const AttentionShape& s, const Floats& qkv, const Floats& dy)
      : shape(s), y(s.rows() * s.queries()), d_qkv(qkv.size()) {
    const std::size_t width = s.head_width;
    const double scale = 1.0 / std::sqrt(static_cast<double>(width));
    for (std::size_t b = 0; b < s.sequences; ++b) {
      for (std::size_t h = 0; h < s.heads; ++h) {
        for (std::size_t i = 0; i < s.length; ++i) {
          const std::size_t keys = i + 1;
          Doubles row(keys);
          double total = 0.0;
          for (std::size_t j = 0; j < keys; ++j) {
            double dot = 0.0;
            for (std::size_t k = 0; k < width; ++k) {
              dot += d(qkv[at(b, i, 0, h, k)]) * d(qkv[at(b, j, 1, h, k)]);
            }
            total += row[j] = std::exp(dot * scale);
          }
          Doubles dp(keys);
          double sum = 0.0;
          for (std::size_t j = 0; j < keys; ++j) {
            row[j] /= total;
            for (std::size_t k = 0; k < width; ++k) {
              const std::size_t out = (b * s.length + i) * s.queries() + h * width + k;
              y[out] += row[j] * d(qkv[at(b, j, 2, h, k)]);
              dp[j] += d(dy[out]) * d(qkv[at(b, j, 2, h, k)]);
              d_qkv[at(b, j, 2, h, k)] += row[j] * d(dy[out]);
            }
            sum += row[j] * dp[j];
          }
          for (std::size_t j = 0; j < keys; ++j) {
            const double ds = row[j] * (dp[j] - sum) * scale;
            for (std::size_t k = 0; k < width; ++k) {
              d_qkv[at(b, i, 0, h, k)] += ds * d(qkv[at(b, j, 1, h, k)]);
              d_qkv[at(b, j, 1, h, k)] += ds * d(qkv[at(b, i, 0, h, k)]);
            }
          }
        }
      }
    }
  }
  /// Element k of the query (0), or of the key (1) or value (2) that it reads, of head h at
  /// position t of sequence b.
  [[nodiscard]] std::size_t at(std::size_t b, std::size_t t, std::size_t which, std::size_t h,
                               std::size_t k) const {
    const std::size_t row = (b * shape.length + t) * shape.qkv() + k;
    if (which == 0) return row + h * shape.head_width;
    return row + shape.queries() + (which - 1) * shape.keys() +
           h / (shape.heads / shape.kv_heads) * shape.head_width;
  }
  AttentionShape shape;
  Doubles y;
  Doubles d_qkv;
};

/// The memory that attention keeps from forward to backward: exactly as large as it asks for.
Floats saved_for(const AttentionShape& shape) {
  return poisoned((product_ops.attention_saved_bytes(shape, Dtype::fp32) + 3) / 4);
}

TEST(Attention, ForwardAndBackward) {
  for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1, 1},
                                     {2, 5, 3, 3, 4},
                                     {1, 33, 1, 1, 7},
                                     {3, 16, 4, 4, 8},
                                     {1, 70, 2, 2, 5},
                                     {2, 9, 6, 2, 5},
                                     {1, 33, 4, 1, 7}}) {
    SCOPED_TRACE(shape.length);
    const std::size_t rows = shape.rows();
    const Floats qkv = normals(rows * shape.qkv(), 1);
    const Floats dy = normals(rows * shape.queries(), 2);
    const Reference reference(shape, qkv, dy);
    Floats saved = saved_for(shape);
    Floats y = poisoned(rows * shape.queries());
    Floats d_qkv = poisoned(qkv.size());
    Floats workspace = poisoned(product_ops.attention_workspace(shape, Dtype::fp32));
    Observer observer;
    const NnContext context{{}, &observer, view(workspace)};
    product_ops.attention_forward(context, shape, view(qkv), view(saved), view(y));
    product_ops.attention_backward(context, shape, view(dy), view(qkv), view(saved), view(y),
                                   view(d_qkv));
    EXPECT_EQ(observer.inside, 0);
    EXPECT_EQ(observer.entered, 4);
    expect_close(y, reference.y, 1e-5, "y");
    expect_close(d_qkv, reference.d_qkv, 2e-5, "d_qkv");
  }
}

TEST(Attention, LargeScoresStayFinite) {
  const AttentionShape shape{1, 9, 1, 1, 4};
  const Floats qkv = normals(9 * 12, 1, 100.0F);
  Floats saved = saved_for(shape);
  Floats y = poisoned(9 * 4);
  product_ops.attention_forward({}, shape, view(qkv), view(saved), view(y));
  for (const float value : y) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, TooSmallASavedStateIsRefused) {
  const AttentionShape shape{1, 9, 1, 1, 4};
  const Floats qkv = normals(9 * 12, 1);
  Floats saved = saved_for(shape);
  Floats y = poisoned(9 * 4);
  EXPECT_THROW(product_ops.attention_forward({}, shape, view(qkv),
                                             view(saved).part(0, saved.size() - 1), view(y)),
               std::invalid_argument);
}

/// Memory for the largest shape serves all smaller ones.
TEST(Attention, MemoryGrowsWithTheShape) {
  const AttentionShape largest{3, 16, 4, 4, 8};
  for (const AttentionShape shape :
       {AttentionShape{2, 16, 4, 4, 8}, {3, 15, 4, 4, 8}, {1, 1, 4, 4, 8}}) {
    EXPECT_LE(product_ops.attention_saved_bytes(shape, Dtype::fp32),
              product_ops.attention_saved_bytes(largest, Dtype::fp32));
    EXPECT_LE(product_ops.attention_workspace(shape, Dtype::fp32),
              product_ops.attention_workspace(largest, Dtype::fp32));
  }
}

/// An ordered backward keeps scores in its workspace; the workspace of the other, which runs unless
/// the same bits are asked for, grows with the length alone, or long sequences would not fit.
TEST(Attention, OnlyADeterministicWorkspaceGrowsWithTheSquareOfTheLength) {
  const NnSizes& planned = planned_sizes(Backend::cuda);
  const auto growth = [&](bool deterministic) {
    AttentionShape shape{
        .sequences = 2, .length = 16384, .heads = 16, .kv_heads = 16, .head_width = 128};
    shape.deterministic = deterministic;
    const auto shorter = static_cast<double>(planned.attention_workspace(shape, Dtype::bf16));
    shape.length *= 2;
    return static_cast<double>(planned.attention_workspace(shape, Dtype::bf16)) / shorter;
  };
  EXPECT_NEAR(growth(false), 2.0, 0.01);
  EXPECT_NEAR(growth(true), 4.0, 0.01);
}

}  // namespace
}  // namespace zeropp::nn
