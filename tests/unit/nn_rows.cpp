// ctest: name=nn_rows labels=sanitize
// Operations that work row by row, against plain loops in fp64: embedding, layer and RMS
// normalisation, SwiGLU, rotary positions, cross-entropy, mean.
#include "kernels/nn/nn_ops.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;

const NnOps& row_ops = host_nn_ops();

class ByDtype : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, ByDtype, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& entry) { return std::string(name_of(entry.param)); });

TEST_P(ByDtype, EmbeddingForwardAndBackward) {
  for (const EmbeddingShape shape :
       {EmbeddingShape{1, 1, 1, 1}, {2, 5, 7, 3}, {3, 8, 257, 40}, {2, 3, 11, 1031}}) {
    const auto [sequences, length, vocab, hidden] = shape;
    const std::size_t rows = sequences * length;
    const Weights table(vocab * hidden, 1, GetParam());
    const Weights positions((length + 2) * hidden, 2, GetParam());
    const auto ids = tokens(rows, vocab, 3);
    Floats y = poisoned(rows * hidden);
    row_ops.embedding_forward({}, shape, ids.data(), table.memory(), positions.memory(), view(y));

    const Floats dy = normals(rows * hidden, 4);
    Floats d_table = normals(vocab * hidden, 5);
    Floats d_positions = normals((length + 2) * hidden, 6);
    Doubles expected_y(rows * hidden);
    Doubles expected_table(d_table.begin(), d_table.end());
    Doubles expected_positions(d_positions.begin(), d_positions.end());
    for (std::size_t row = 0; row < rows; ++row) {
      const auto id = static_cast<std::size_t>(ids[row]);
      for (std::size_t j = 0; j < hidden; ++j) {
        expected_y[row * hidden + j] =
            d(table.wide[id * hidden + j]) + d(positions.wide[row % length * hidden + j]);
        expected_table[id * hidden + j] += d(dy[row * hidden + j]);
        expected_positions[row % length * hidden + j] += d(dy[row * hidden + j]);
      }
    }
    row_ops.embedding_backward({}, shape, ids.data(), view(std::as_const(dy)), view(d_table),
                               view(d_positions));
    expect_close(y, expected_y, 1e-6, "y");
    expect_close(d_table, expected_table, 1e-5, "token gradient");
    expect_close(d_positions, expected_positions, 1e-5, "position gradient");
  }
}

void check_norm(Dtype dtype, bool centred) {
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {1, 2}, {3, 31}, {17, 32}, {5, 333}, {2, 1100}};
  for (const auto& [rows, hidden] : shapes) {
    const NormShape shape{rows, hidden, centred ? 1e-5F : 0.25F};
    const auto of_centred = [=](auto view) { return centred ? view : decltype(view){}; };
    const Floats x = normals(rows * hidden, 1, 3.0F);
    const Weights weight(hidden, 2, dtype);
    const Weights bias(hidden, 3, dtype);
    const Floats dy = normals(rows * hidden, 4);
    Floats y = poisoned(rows * hidden);
    Floats mean = poisoned(rows);
    Floats rstd = poisoned(rows);
    row_ops.norm_forward({}, shape, view(x), weight.memory(), of_centred(bias.memory()), view(y),
                         of_centred(view(mean)), view(rstd));
    Floats dx = poisoned(rows * hidden);
    Floats dx_added = normals(rows * hidden, 5);
    Floats d_weight = normals(hidden, 6);
    Floats d_bias = normals(hidden, 7);
    Doubles expected_y(rows * hidden);
    Doubles expected_dx(rows * hidden);
    Doubles expected_added(dx_added.begin(), dx_added.end());
    Doubles expected_weight(d_weight.begin(), d_weight.end());
    Doubles expected_bias(d_bias.begin(), d_bias.end());
    for (std::size_t row = 0; row < rows; ++row) {
      const auto at = [&, r = row, h = hidden](const Floats& a, std::size_t j) {
        return d(a[r * h + j]);
      };
      double m = 0.0;
      double variance = 0.0;
      for (std::size_t j = 0; centred && j < hidden; ++j) {
        m += at(x, j) / static_cast<double>(hidden);
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        variance += (at(x, j) - m) * (at(x, j) - m) / static_cast<double>(hidden);
      }
      const double r = 1.0 / std::sqrt(variance + d(shape.epsilon));
      double mean_g = 0.0;
      double mean_gn = 0.0;
      for (std::size_t j = 0; j < hidden; ++j) {
        const double n = (at(x, j) - m) * r;
        const double g = at(dy, j) * d(weight.wide[j]);
        expected_y[row * hidden + j] = n * d(weight.wide[j]) + (centred ? d(bias.wide[j]) : 0.0);
        if (centred) mean_g += g / static_cast<double>(hidden);
        mean_gn += g * n / static_cast<double>(hidden);
        expected_weight[j] += at(dy, j) * n;
        if (centred) expected_bias[j] += at(dy, j);
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        const double n = (at(x, j) - m) * r;
        const double value = r * (at(dy, j) * d(weight.wide[j]) - mean_g - n * mean_gn);
        expected_dx[row * hidden + j] = value;
        expected_added[row * hidden + j] += value;
      }
    }
    expect_close(y, expected_y, 1e-5, "y");
    row_ops.norm_backward({}, shape, view(dy), view(x), weight.memory(), of_centred(view(mean)),
                          view(rstd), false, view(dx), true, view(d_weight),
                          of_centred(view(d_bias)));
    expect_close(dx, expected_dx, 1e-5, "dx");
    expect_close(d_weight, expected_weight, 1e-5, "weight gradient");
    expect_close(d_bias, expected_bias, 1e-5, "bias gradient");
    row_ops.norm_backward({}, shape, view(dy), view(x), weight.memory(), of_centred(view(mean)),
                          view(rstd), true, view(dx_added), true, view(d_weight),
                          of_centred(view(d_bias)));
    expect_close(dx_added, expected_added, 1e-5, "dx added");

    // Written instead of added: the bits of a sum that begins with zeros.
    std::fill(d_weight.begin(), d_weight.end(), 0.0F);
    std::fill(d_bias.begin(), d_bias.end(), 0.0F);
    row_ops.norm_backward({}, shape, view(dy), view(x), weight.memory(), of_centred(view(mean)),
                          view(rstd), false, view(dx), true, view(d_weight),
                          of_centred(view(d_bias)));
    Floats written_weight = poisoned(hidden);
    Floats written_bias = centred ? poisoned(hidden) : d_bias;
    row_ops.norm_backward({}, shape, view(dy), view(x), weight.memory(), of_centred(view(mean)),
                          view(rstd), false, view(dx), false, view(written_weight),
                          of_centred(view(written_bias)));
    expect_same_bits(written_weight, d_weight, "weight gradient, written");
    expect_same_bits(written_bias, d_bias, "bias gradient, written");

    // In 16 bits: the same sums, rounded once.
    Weights narrow_weight(hidden, 8, dtype);
    Weights narrow_bias(hidden, 9, dtype);
    row_ops.norm_backward({}, shape, view(dy), view(x), weight.memory(), of_centred(view(mean)),
                          view(rstd), false, view(dx), false, narrow_weight.view(),
                          of_centred(narrow_bias.view()));
    const auto rounded = [=](const Floats& sums) { return loaded(stored(sums, dtype), dtype); };
    expect_same_bits(narrow_weight.now(), rounded(written_weight), "narrow weight gradient");
    if (!centred) continue;
    expect_same_bits(narrow_bias.now(), rounded(written_bias), "narrow bias gradient");
  }
}

TEST_P(ByDtype, LayernormForwardAndBackward) { check_norm(GetParam(), true); }
TEST_P(ByDtype, RmsnormForwardAndBackward) { check_norm(GetParam(), false); }

TEST_P(ByDtype, EmbeddingWithoutPositions) {
  const EmbeddingShape shape{2, 5, 7, 3};
  const Weights table(shape.vocab * shape.hidden, 1, GetParam());
  const auto ids = tokens(10, shape.vocab, 3);
  Floats y = poisoned(30);
  row_ops.embedding_forward({}, shape, ids.data(), table.memory(), {}, view(y));
  Floats d_table(shape.vocab * shape.hidden);
  Floats expected(d_table.size());
  const Floats dy = normals(30, 4);
  row_ops.embedding_backward({}, shape, ids.data(), view(dy), view(d_table), {});
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(ids[i / 3]) * 3 + i % 3;
    EXPECT_EQ(y[i], table.wide[at]);
    expected[at] += dy[i];
  }
  EXPECT_EQ(d_table, expected);
}

TEST(Swiglu, ForwardAndBackward) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {3, 31}, {17, 40}};
  for (const auto& [rows, width] : shapes) {
    const Floats both = normals(rows * 2 * width, 1, 4.0F);
    const Floats dy = normals(rows * width, 2);
    Floats y = poisoned(rows * width);
    Floats gradient = both;
    row_ops.swiglu_forward({}, rows, width, view(both), view(y));
    row_ops.swiglu_backward({}, rows, width, view(dy), view(gradient));
    Doubles expected(rows * width);
    Doubles expected_gradient(both.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t j = 0; j < width; ++j) {
        const double g = d(both[row * 2 * width + j]);
        const double up = d(both[(row * 2 + 1) * width + j]);
        const double s = 1 / (1 + std::exp(-g));
        const double dy_here = d(dy[row * width + j]);
        expected[row * width + j] = g * s * up;
        expected_gradient[row * 2 * width + j] = dy_here * up * (s + g * s * (1 - s));
        expected_gradient[(row * 2 + 1) * width + j] = dy_here * g * s;
      }
    }
    expect_close(y, expected, 1e-6, "y");
    expect_close(gradient, expected_gradient, 1e-6, "gradient");
  }
}

/// Queries and keys as complex numbers times e^(i t theta_i); values stay; backward turns back.
TEST(Rotary, TurnsByTheAngleOfThePosition) {
  const AttentionShape shape{
      .sequences = 2, .length = 5, .heads = 3, .kv_heads = 1, .head_width = 6};
  const Floats table = normals(5 * 6, 1);
  const Floats before = normals(shape.rows() * shape.qkv(), 2);
  Floats turned = before;
  row_ops.rotary({}, shape, view(table), false, view(turned));
  Floats back = turned;
  row_ops.rotary({}, shape, view(table), true, view(back));
  Doubles expected(before.begin(), before.end());
  Doubles expected_back(before.begin(), before.end());
  for (std::size_t row = 0; row < shape.rows(); ++row) {
    for (std::size_t head = 0; head < 4; ++head) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = row * shape.qkv() + head * 6 + i;
        const double c = d(table[row % 5 * 6 + 2 * i]);
        const double s = d(table[row % 5 * 6 + 2 * i + 1]);
        expected[at] = c * d(before[at]) - s * d(before[at + 3]);
        expected[at + 3] = c * d(before[at + 3]) + s * d(before[at]);
        // The transpose: c^2 + s^2 times what was there.
        expected_back[at] *= c * c + s * s;
        expected_back[at + 3] *= c * c + s * s;
      }
    }
  }
  expect_close(turned, expected, 1e-6, "turned");
  expect_close(back, expected_back, 1e-5, "turned back");
}

TEST(CrossEntropy, LossAndGradient) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {4, 3}, {5, 257}, {3, 1000}};
  for (const auto& [rows, vocab] : shapes) {
    const Floats logits = normals(rows * vocab, 1, 4.0F);
    const auto targets = tokens(rows, vocab, 2);
    Doubles expected_loss(rows);
    Doubles expected_gradient(rows * vocab);
    for (std::size_t r = 0; r < rows; ++r) {
      double total = 0.0;
      for (std::size_t v = 0; v < vocab; ++v) total += std::exp(d(logits[r * vocab + v]));
      const std::size_t target = r * vocab + static_cast<std::size_t>(targets[r]);
      expected_loss[r] = std::log(total) - d(logits[target]);
      for (std::size_t v = 0; v < vocab; ++v) {
        expected_gradient[r * vocab + v] =
            std::exp(d(logits[r * vocab + v])) / total / static_cast<double>(rows);
      }
      expected_gradient[target] -= 1.0 / static_cast<double>(rows);
    }
    Floats gradient = logits;
    Floats loss = poisoned(rows);
    row_ops.cross_entropy({}, rows, vocab, vocab, targets.data(), true, 1.0F, view(gradient),
                          view(loss));
    expect_close(loss, expected_loss, 2e-6, "loss");
    expect_close(gradient, expected_gradient, 1e-6, "gradient");
    Floats lost = logits;
    Floats loss_only = poisoned(rows);
    row_ops.cross_entropy({}, rows, vocab, vocab, targets.data(), false, 1.0F, view(lost),
                          view(loss_only));
    EXPECT_EQ(loss_only, loss);
  }
}

TEST(CrossEntropy, PaddedRowsGiveTheSameAndZeros) {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kVocab = 13;
  constexpr std::size_t kStride = 16;
  Floats dense = normals(kRows * kVocab, 1, 4.0F);
  Floats padded = poisoned(kRows * kStride);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    padded[i / kVocab * kStride + i % kVocab] = dense[i];
  }
  const auto targets = tokens(kRows, kVocab, 2);
  Floats loss = poisoned(kRows);
  Floats padded_loss = poisoned(kRows);
  row_ops.cross_entropy({}, kRows, kVocab, kVocab, targets.data(), true, 1.0F, view(dense),
                        view(loss));
  row_ops.cross_entropy({}, kRows, kVocab, kStride, targets.data(), true, 1.0F, view(padded),
                        view(padded_loss));
  EXPECT_EQ(padded_loss, loss);
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const std::size_t column = i % kStride;
    EXPECT_EQ(padded[i], column < kVocab ? dense[i / kStride * kVocab + column] : 0.0F) << i;
  }
}

TEST(CrossEntropy, LargeLogitsAndNan) {
  const std::vector<std::int32_t> targets = {0, 1};
  Floats logits = {1e4F, -1e4F, 0.0F, std::numeric_limits<float>::quiet_NaN()};
  Floats loss = poisoned(2);
  row_ops.cross_entropy({}, 2, 2, 2, targets.data(), true, 1.0F, view(logits), view(loss));
  EXPECT_NEAR(loss[0], 0.0F, 1e-6F);
  EXPECT_TRUE(std::isnan(loss[1])) << "a NaN must not disappear";
  EXPECT_TRUE(std::isnan(logits[2]) && std::isnan(logits[3]));
}

TEST(Mean, SumsInDoublePrecisionUntilTaken) {
  const Floats values(1'000'000, 0.1F);
  const Floats others = {2.0F, 3.0F};
  double total = 0.0;
  row_ops.add_mean({}, view(values), &total);
  EXPECT_NEAR(total, d(0.1F), 1e-12);
  row_ops.add_mean({}, view(others), &total);
  double taken = -1.0;
  row_ops.take_total({}, &total, &taken);
  EXPECT_NEAR(taken, d(0.1F) + 2.5, 1e-12);
  EXPECT_EQ(total, 0.0);
}

TEST(Views, WrongOnesAreRefused) {
  Floats logits(4);
  Floats loss(2);
  std::vector<Bf16> narrow(4);
  const std::vector<std::int32_t> targets = {0, 1};
  const auto run = [&](const View& values) {
    row_ops.cross_entropy({}, 2, 2, 2, targets.data(), true, 1.0F, values, view(loss));
  };
  EXPECT_NO_THROW(run(view(logits)));
  EXPECT_THROW(run(View::of(logits.data(), 3)), std::invalid_argument);
  EXPECT_THROW(run(View::of(narrow.data(), 4)), std::invalid_argument);
  EXPECT_THROW(run(View::of(logits.data(), 4, MemoryKind::device)), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::nn
