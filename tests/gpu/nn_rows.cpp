// ctest: name=gpu_nn_rows timeout=300 joined=no
// Layer normalisation, embedding and cross-entropy on the GPU against the host's, in both dtypes:
// inputs rounded to the dtype on both sides, outputs and workspace poisoned; rows of any length,
// aligned or not, also longer than a block keeps; the same bits in a second run; and results that
// are not finite, or would not be in the dtype.
#include <utility>

#include "lib/device/compute_device.hpp"
#include "tests/support/device_array.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;

const ComputeDevice& gpu() {
  static const ComputeDevice device = Device::cuda(0);
  return device;
}
const NnOps& host = host_nn_ops();

double tolerance(Dtype dtype) { return dtype == Dtype::fp32 ? 1e-5 : 1e-2; }

DeviceArray up(const Floats& values, Dtype dtype = Dtype::fp32) { return {gpu(), values, dtype}; }

/// Tokens in the GPU's memory.
class DeviceTokens {
 public:
  explicit DeviceTokens(const std::vector<std::int32_t>& tokens)
      : memory_(tokens.size() * sizeof(std::int32_t), gpu().memory) {
    // Four bytes each, whatever they mean.
    gpu().memory_ops->copy({tokens.data(), tokens.size(), Dtype::fp32},
                           memory_.view(tokens.size(), Dtype::fp32), {});
    Stream::borrow(*gpu().runtime, {}).synchronize();
  }
  [[nodiscard]] const std::int32_t* data() const {
    return reinterpret_cast<const std::int32_t*>(memory_.data());
  }

 private:
  Buffer memory_;
};

class GpuRows : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, GpuRows, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& entry) { return std::string(name_of(entry.param)); });

struct LayernormResult {
  Floats y, mean, rstd, dx, added, d_weight, d_bias;
};

/// Forward, backward, and backward added to `added`; `write` says that the first backward writes
/// the gradients of weight and bias, which are of dtype `gradients`.
LayernormResult layernorm(std::size_t rows, std::size_t hidden, Dtype dtype, const Floats& x,
                          const Floats& weight, const Floats& bias, const Floats& dy,
                          const LayernormResult& begin, bool write = false,
                          Dtype gradients = Dtype::fp32) {
  const NnOps& ops = *gpu().nn;
  const DeviceArray workspace = up(poisoned(ops.layernorm_workspace(rows, hidden)));
  const NnContext context{.stream = {}, .workspace = workspace.view()};
  const DeviceArray in = up(x, dtype);
  const DeviceArray w = up(weight, dtype);
  const DeviceArray b = up(bias, dtype);
  const DeviceArray grad = up(dy, dtype);
  const DeviceArray y = up(begin.y, dtype);
  const DeviceArray mean = up(begin.mean);
  const DeviceArray rstd = up(begin.rstd);
  const DeviceArray dx = up(begin.dx, dtype);
  const DeviceArray added = up(begin.added, dtype);
  const DeviceArray d_weight = up(begin.d_weight, gradients);
  const DeviceArray d_bias = up(begin.d_bias, gradients);
  ops.layernorm_forward(context, rows, hidden, in.read(), w.read(), b.read(), y.view(), mean.view(),
                        rstd.view());
  ops.layernorm_backward(context, rows, hidden, grad.read(), in.read(), w.read(), mean.read(),
                         rstd.read(), false, dx.view(), !write, d_weight.view(), d_bias.view());
  ops.layernorm_backward(context, rows, hidden, grad.read(), in.read(), w.read(), mean.read(),
                         rstd.read(), true, added.view(), true, d_weight.view(), d_bias.view());
  return {y.download(),     mean.download(),     rstd.download(),  dx.download(),
          added.download(), d_weight.download(), d_bias.download()};
}

void check_layernorm(std::size_t rows, std::size_t hidden, Dtype dtype) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(hidden));
  const std::size_t n = rows * hidden;
  const Floats x = rounded(normals(n, 1, 3.0F), dtype);
  const Floats weight = rounded(normals(hidden, 2), dtype);
  const Floats bias = rounded(normals(hidden, 3), dtype);
  const Floats dy = rounded(normals(n, 4), dtype);
  const LayernormResult begin{poisoned(n),
                              poisoned(rows),
                              poisoned(rows),
                              poisoned(n),
                              rounded(normals(n, 5), dtype),
                              normals(hidden, 6),
                              normals(hidden, 7)};
  LayernormResult wanted = begin;
  host.layernorm_forward({}, rows, hidden, view(x), view(weight), view(bias), view(wanted.y),
                         view(wanted.mean), view(wanted.rstd));
  for (const bool accumulate : {false, true}) {
    host.layernorm_backward({}, rows, hidden, view(dy), view(x), view(weight),
                            view(std::as_const(wanted.mean)), view(std::as_const(wanted.rstd)),
                            accumulate, view(accumulate ? wanted.added : wanted.dx), true,
                            view(wanted.d_weight), view(wanted.d_bias));
  }
  const LayernormResult got = layernorm(rows, hidden, dtype, x, weight, bias, dy, begin);
  expect_norm_close(got.y, wanted.y, tolerance(dtype), "y");
  expect_norm_close(got.mean, wanted.mean, 1e-5, "mean");
  expect_norm_close(got.rstd, wanted.rstd, 1e-5, "rstd");
  expect_norm_close(got.dx, wanted.dx, tolerance(dtype), "dx");
  expect_norm_close(got.added, wanted.added, tolerance(dtype), "dx added");
  // Sums in fp32 of the same inputs, whatever their dtype.
  expect_norm_close(got.d_weight, wanted.d_weight, 1e-5, "weight gradient");
  expect_norm_close(got.d_bias, wanted.d_bias, 1e-5, "bias gradient");
  const LayernormResult again = layernorm(rows, hidden, dtype, x, weight, bias, dy, begin);
  expect_same_bits(again.y, got.y, "y again");
  expect_same_bits(again.added, got.added, "dx again");
  expect_same_bits(again.d_weight, got.d_weight, "weight gradient again");
  expect_same_bits(again.d_bias, got.d_bias, "bias gradient again");

  // Written instead of added: the bits of a sum that begins with zeros.
  LayernormResult zeros = begin;
  LayernormResult poison = begin;
  zeros.d_weight = zeros.d_bias = Floats(hidden);
  poison.d_weight = poison.d_bias = poisoned(hidden);
  const LayernormResult sum = layernorm(rows, hidden, dtype, x, weight, bias, dy, zeros);
  const LayernormResult written = layernorm(rows, hidden, dtype, x, weight, bias, dy, poison, true);
  expect_same_bits(written.d_weight, sum.d_weight, "weight gradient, written");
  expect_same_bits(written.d_bias, sum.d_bias, "bias gradient, written");
  // Rounded after the first sum and after the second.
  const LayernormResult narrow =
      layernorm(rows, hidden, dtype, x, weight, bias, dy, poison, true, dtype);
  expect_norm_close(narrow.d_weight, written.d_weight, tolerance(dtype), "narrow weight");
  expect_norm_close(narrow.d_bias, written.d_bias, tolerance(dtype), "narrow bias");
}

TEST_P(GpuRows, Layernorm) {
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {1, 3},    {3, 31},      {5, 333},     {2, 1100},   {1061, 768},
      {700, 65}, {1100, 1600}, {9, 8192},    {270, 4096}, {400, 6144},
      {3, 5001}, {140, 8200},  {300, 12288}, {3, 20000},  {530, 40000}};
  for (const auto& [rows, hidden] : shapes) check_layernorm(rows, hidden, GetParam());
}

/// Rows of a warp or two: a block has groups without a row, threads without an element, or both.
/// Small enough for compute-sanitizer.
TEST_P(GpuRows, LayernormOfShortRows) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{17, 32},  {18, 24},   {66, 128},
                                                        {102, 48}, {140, 520}, {1500, 64}};
  for (const auto& [rows, hidden] : shapes) check_layernorm(rows, hidden, GetParam());
}

/// The host adds rows in the same order: the bits are the same.
void check_embedding(const EmbeddingShape& shape, Dtype dtype,
                     const std::vector<std::int32_t>& ids) {
  SCOPED_TRACE(std::to_string(shape.sequences) + " x " + std::to_string(shape.length) + " of " +
               std::to_string(shape.vocab) + " to " + std::to_string(shape.hidden));
  const NnOps& ops = *gpu().nn;
  const auto [sequences, length, vocab, hidden] = shape;
  const std::size_t n = sequences * length * hidden;
  const Floats table = rounded(normals(vocab * hidden, 1), dtype);
  const Floats positions = rounded(normals((length + 2) * hidden, 2), dtype);
  const Floats dy = rounded(normals(n, 3), dtype);
  Floats y = poisoned(n);
  Floats d_table = normals(vocab * hidden, 4);
  Floats d_positions = normals((length + 2) * hidden, 5);

  const DeviceTokens tokens_there(ids);
  const DeviceArray workspace = up(poisoned(ops.embedding_workspace(shape)));
  const NnContext context{.stream = {}, .workspace = workspace.view()};
  const DeviceArray y_there = up(y, dtype);
  const DeviceArray d_table_there = up(d_table);
  const DeviceArray d_positions_there = up(d_positions);
  ops.embedding_forward(context, shape, tokens_there.data(), up(table, dtype).read(),
                        up(positions, dtype).read(), y_there.view());
  ops.embedding_backward(context, shape, tokens_there.data(), up(dy, dtype).read(),
                         d_table_there.view(), d_positions_there.view());

  host.embedding_forward({}, shape, ids.data(), view(table), view(positions), view(y));
  host.embedding_backward({}, shape, ids.data(), view(dy), view(d_table), view(d_positions));
  expect_same_bits(y_there.download(), rounded(y, dtype), "y");
  expect_same_bits(d_table_there.download(), d_table, "token gradient");
  expect_same_bits(d_positions_there.download(), d_positions, "position gradient");
}

TEST_P(GpuRows, Embedding) {
  for (const EmbeddingShape shape : {EmbeddingShape{1, 1, 1, 1},
                                     {2, 5, 7, 3},
                                     {3, 8, 257, 40},
                                     {2, 3, 11, 1031},
                                     {11, 64, 5003, 96},
                                     {4, 300, 256, 1600}}) {
    check_embedding(shape, GetParam(), tokens(shape.sequences * shape.length, shape.vocab, 9));
  }
}

TEST_P(GpuRows, EmbeddingOfOneTokenOverAndOver) {
  for (const std::int32_t token : {0, 511}) {
    check_embedding({4, 257, 512, 72}, GetParam(),
                    std::vector<std::int32_t>(std::size_t{4} * 257, token));
  }
}

/// The rounded sum. Beyond the range of fp16 it is an infinity, which the loss scale has to handle.
float activation(float sum, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return to_float(saturating_cast<Bf16>(sum));
    case Dtype::fp16:
      return to_float(round_to_fp16(sum));
    case Dtype::fp32:
      break;
  }
  return saturating_cast<float>(sum);
}

/// Whole packs and single elements: large sums saturate, in fp16 they become infinite, infinities
/// and NaN stay, and their neighbours are rounded as ever.
TEST_P(GpuRows, ResultsThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool half = GetParam() == Dtype::fp16;
  const float largest = half ? 65504.0F : 3.38953139e38F;  // of bf16: sums are finite in fp32
  const float more = half ? 32.0F : 1e36F;
  const DeviceTokens token(std::vector<std::int32_t>{0});
  const Floats special = {largest, -largest, kInfinity, -kInfinity, kInfinity,
                          0.1F,    -0.0F,    largest,   1.0F,       0.3F};
  const Floats added = {more, -more, 1.0F, 1.0F, -kInfinity, 0.7F, -0.0F, 0.0F, 0.0039F, -1e-4F};
  for (const std::size_t hidden : {40U, 39U}) {
    SCOPED_TRACE("rows of " + std::to_string(hidden));
    Floats table = normals(hidden, 1);
    Floats positions = normals(hidden, 2);
    // Some packs have one of these values, others none.
    for (std::size_t i = 0; i < special.size(); ++i) {
      table[3 * i] = special[i];
      positions[3 * i] = added[i];
    }
    table = rounded(table, GetParam());
    positions = rounded(positions, GetParam());
    Floats wanted;
    for (std::size_t i = 0; i < hidden; ++i) {
      const float sum = table[i] + positions[i];
      wanted.push_back(activation(sum, GetParam()));
    }
    const DeviceArray y = up(poisoned(hidden), GetParam());
    gpu().nn->embedding_forward({}, {1, 1, 1, hidden}, token.data(), up(table, GetParam()).read(),
                                up(positions, GetParam()).read(), y.view());
    expect_same_bits(y.download(), wanted, "y");
  }
}

TEST_P(GpuRows, CrossEntropy) {
  struct Shape {
    std::size_t rows, vocab, stride;
  };
  for (const Shape& shape : {Shape{1, 1, 1},
                             {4, 3, 3},
                             {4, 3, 8},
                             {5, 257, 320},
                             {3, 1000, 1000},
                             {33, 4099, 4160},
                             {6, 50257, 50257},
                             {7, 50257, 50304},
                             {2, 200001, 200001},
                             {2, 200001, 200064}}) {
    const auto [rows, vocab, stride] = shape;
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(vocab) + ", stride " +
                 std::to_string(stride));
    auto targets = tokens(rows, vocab, 2);
    const std::size_t counted = rows > 4 ? rows - 2 : rows;
    if (rows > 4) targets[1] = targets[rows - 1] = -1;
    Floats gradient = rounded(normals(rows * vocab, 1, 4.0F), GetParam());
    Floats spread = poisoned(rows * stride);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      spread[i / vocab * stride + i % vocab] = gradient[i];
    }
    Floats loss = poisoned(rows);
    const DeviceTokens targets_there(targets);
    const DeviceArray logits = up(spread, GetParam());
    const DeviceArray loss_there = up(loss);
    gpu().nn->cross_entropy({}, rows, vocab, stride, targets_there.data(), counted, true, 1.0F,
                            logits.view(), loss_there.view());
    host.cross_entropy({}, rows, vocab, vocab, targets.data(), counted, true, 1.0F, view(gradient),
                       view(loss));
    expect_norm_close(loss_there.download(), loss, 1e-5, "loss");
    const Floats got = logits.download();
    Floats dense;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i % stride < vocab) {
        dense.push_back(got[i]);
      } else {
        ASSERT_EQ(got[i], 0.0F) << "between the rows, at [" << i << ']';
      }
    }
    expect_norm_close(dense, gradient, tolerance(GetParam()), "gradient");

    const DeviceArray lost = up(spread, GetParam());
    const DeviceArray loss_only = up(poisoned(rows));
    gpu().nn->cross_entropy({}, rows, vocab, stride, targets_there.data(), counted, false, 1.0F,
                            lost.view(), loss_only.view());
    expect_same_bits(loss_only.download(), loss_there.download(), "loss without gradient");
  }
}

TEST_P(GpuRows, CrossEntropyOfLargeLogitsAndNan) {
  const DeviceTokens targets({0, 1});
  const DeviceArray logits =
      up({1e4F, -1e4F, 0.0F, std::numeric_limits<float>::quiet_NaN()}, GetParam());
  const DeviceArray loss = up(poisoned(2));
  gpu().nn->cross_entropy({}, 2, 2, 2, targets.data(), 2, true, 1.0F, logits.view(), loss.view());
  const Floats losses = loss.download();
  const Floats gradient = logits.download();
  EXPECT_NEAR(losses[0], 0.0F, 1e-6F);
  EXPECT_TRUE(std::isnan(losses[1])) << "a NaN must not disappear: " << losses[1];
  EXPECT_TRUE(std::isnan(gradient[2]) && std::isnan(gradient[3]))
      << gradient[2] << ", " << gradient[3];
}

/// More logits than 32 bits count: all of them zero, so that every probability is 1 / vocab.
TEST(GpuCrossEntropy, BeyondThirtyTwoBits) {
  constexpr std::size_t kRows = 43000;
  constexpr std::size_t kVocab = 50257;
  constexpr std::size_t kStride = 50304;
  static_assert(kRows * kStride > (std::size_t{1} << 31U));
  const Buffer memory = Buffer::zeros(kRows * kStride, Dtype::bf16, gpu().memory);
  const View logits = memory.view(kRows * kStride, Dtype::bf16);
  const DeviceTokens targets(std::vector<std::int32_t>(kRows, kVocab - 1));
  const DeviceArray loss = up(poisoned(kRows));
  gpu().nn->cross_entropy({}, kRows, kVocab, kStride, targets.data(), kRows, true, 1.0F, logits,
                          loss.view());
  expect_norm_close(loss.download(), Floats(kRows, std::log(static_cast<float>(kVocab))), 1e-5,
                    "loss");
  std::vector<Bf16> last(kStride);
  gpu().memory_ops->copy(ConstView(View(logits.part((kRows - 1) * kStride, kStride))),
                         View::of(last.data(), last.size()), {});
  Stream::borrow(*gpu().runtime, {}).synchronize();
  Floats got;
  for (const Bf16 value : last) got.push_back(to_float(value));
  Floats wanted(kStride, 0.0F);
  std::fill_n(wanted.begin(), kVocab, 1.0F / kRows / kVocab);
  const float at_target = got[kVocab - 1];
  EXPECT_NEAR(at_target, (1.0F / kVocab - 1.0F) / kRows, 1e-2F / kRows);
  got[kVocab - 1] = wanted[kVocab - 1];
  expect_norm_close(got, wanted, 1e-2, "gradient of the last row");
}

}  // namespace
}  // namespace zeropp::nn
