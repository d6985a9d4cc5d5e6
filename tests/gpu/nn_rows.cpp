// ctest: name=gpu_nn_rows timeout=300 joined=no
// Layer and RMS normalisation, SwiGLU, rotary positions, embedding and cross-entropy on the GPU
// against the host's, in both dtypes:
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

struct NormResult {
  Floats y, mean, rstd, dx, added, d_weight, d_bias;
};

/// A normalisation of one kind: RMS has neither mean nor bias, and views of them are empty.
struct Norm {
  NormShape shape;
  bool centred;
  Dtype dtype;
  Floats x, weight, bias, dy;

  template <class AnyView>
  [[nodiscard]] AnyView of_centred(AnyView all) const {
    return centred ? all : AnyView{};
  }

  /// Forward, backward, and backward added to `added`; `write` says that the first backward writes
  /// the gradients of weight and bias, which are of dtype `gradients`.
  [[nodiscard]] NormResult on_gpu(const NormResult& begin, bool write = false,
                                  Dtype gradients = Dtype::fp32) const {
    const NnOps& ops = *gpu().nn;
    const DeviceArray workspace = up(poisoned(ops.norm_workspace(shape.rows, shape.hidden)));
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
    ops.norm_forward(context, shape, in.read(), w.read(), of_centred(b.read()), y.view(),
                     of_centred(mean.view()), rstd.view());
    for (const bool adds : {false, true}) {
      ops.norm_backward(context, shape, grad.read(), in.read(), w.read(), of_centred(mean.read()),
                        rstd.read(), adds, adds ? added.view() : dx.view(), adds || !write,
                        d_weight.view(), of_centred(d_bias.view()));
    }
    return {y.download(),     mean.download(),     rstd.download(),  dx.download(),
            added.download(), d_weight.download(), d_bias.download()};
  }

  [[nodiscard]] NormResult on_host(const NormResult& begin) const {
    NormResult wanted = begin;
    host.norm_forward({}, shape, view(x), view(weight), of_centred(view(bias)), view(wanted.y),
                      of_centred(view(wanted.mean)), view(wanted.rstd));
    for (const bool adds : {false, true}) {
      host.norm_backward(
          {}, shape, view(dy), view(x), view(weight), of_centred(view(std::as_const(wanted.mean))),
          view(std::as_const(wanted.rstd)), adds, view(adds ? wanted.added : wanted.dx), true,
          view(wanted.d_weight), of_centred(view(wanted.d_bias)));
    }
    return wanted;
  }
};

void check_norm(std::size_t rows, std::size_t hidden, Dtype dtype, bool centred) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(hidden) +
               (centred ? ", layer" : ", RMS"));
  const std::size_t n = rows * hidden;
  const Norm norm{.shape = {rows, hidden, centred ? 1e-5F : 0.25F},
                  .centred = centred,
                  .dtype = dtype,
                  .x = rounded(normals(n, 1, 3.0F), dtype),
                  .weight = rounded(normals(hidden, 2), dtype),
                  .bias = rounded(normals(hidden, 3), dtype),
                  .dy = rounded(normals(n, 4), dtype)};
  const NormResult begin{poisoned(n),
                         poisoned(rows),
                         poisoned(rows),
                         poisoned(n),
                         rounded(normals(n, 5), dtype),
                         normals(hidden, 6),
                         normals(hidden, 7)};
  const NormResult wanted = norm.on_host(begin);
  const NormResult got = norm.on_gpu(begin);
  expect_norm_close(got.y, wanted.y, tolerance(dtype), "y");
  if (centred) expect_norm_close(got.mean, wanted.mean, 1e-5, "mean");
  expect_norm_close(got.rstd, wanted.rstd, 1e-5, "rstd");
  expect_norm_close(got.dx, wanted.dx, tolerance(dtype), "dx");
  expect_norm_close(got.added, wanted.added, tolerance(dtype), "dx added");
  // Sums in fp32 of the same inputs, whatever their dtype.
  expect_norm_close(got.d_weight, wanted.d_weight, 1e-5, "weight gradient");
  expect_norm_close(got.d_bias, wanted.d_bias, 1e-5, "bias gradient");
  const NormResult again = norm.on_gpu(begin);
  expect_same_bits(again.y, got.y, "y again");
  expect_same_bits(again.added, got.added, "dx again");
  expect_same_bits(again.d_weight, got.d_weight, "weight gradient again");
  expect_same_bits(again.d_bias, got.d_bias, "bias gradient again");

  // Written instead of added: the bits of a sum that begins with zeros.
  NormResult zeros = begin;
  NormResult poison = begin;
  zeros.d_weight = zeros.d_bias = Floats(hidden);
  poison.d_weight = poisoned(hidden);
  poison.d_bias = centred ? poisoned(hidden) : zeros.d_bias;
  const NormResult sum = norm.on_gpu(zeros);
  const NormResult written = norm.on_gpu(poison, true);
  expect_same_bits(written.d_weight, sum.d_weight, "weight gradient, written");
  expect_same_bits(written.d_bias, sum.d_bias, "bias gradient, written");
  // Rounded after the first sum and after the second.
  const NormResult narrow = norm.on_gpu(poison, true, dtype);
  expect_norm_close(narrow.d_weight, written.d_weight, tolerance(dtype), "narrow weight");
  expect_norm_close(narrow.d_bias, written.d_bias, tolerance(dtype), "narrow bias");
}

TEST_P(GpuRows, Norms) {
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {1, 3},    {3, 31},      {5, 333},     {2, 1100},   {1061, 768},
      {700, 65}, {1100, 1600}, {9, 8192},    {270, 4096}, {400, 6144},
      {3, 5001}, {140, 8200},  {300, 12288}, {3, 20000},  {530, 40000}};
  for (const auto& [rows, hidden] : shapes) {
    for (const bool centred : {true, false}) check_norm(rows, hidden, GetParam(), centred);
  }
}

/// Rows of a warp or two: a block has groups without a row, threads without an element, or both.
/// Small enough for compute-sanitizer.
TEST_P(GpuRows, NormsOfShortRows) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{17, 32},  {18, 24},   {66, 128},
                                                        {102, 48}, {140, 520}, {1500, 64}};
  for (const auto& [rows, hidden] : shapes) {
    for (const bool centred : {true, false}) check_norm(rows, hidden, GetParam(), centred);
  }
}

TEST_P(GpuRows, Swiglu) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1},     {3, 31},     {5, 40},
                                                        {33, 1032}, {900, 5632}, {2, 28672}};
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    const Floats both = rounded(normals(rows * 2 * width, 1, 3.0F), GetParam());
    const Floats dy = rounded(normals(rows * width, 2), GetParam());
    const DeviceArray y_there = up(poisoned(rows * width), GetParam());
    const DeviceArray there = up(both, GetParam());
    gpu().nn->swiglu_forward({}, rows, width, there.read(), y_there.view());
    gpu().nn->swiglu_backward({}, rows, width, up(dy, GetParam()).read(), there.view());
    Floats y = poisoned(rows * width);
    Floats gradient = both;
    host.swiglu_forward({}, rows, width, view(both), view(y));
    host.swiglu_backward({}, rows, width, view(dy), view(gradient));
    expect_norm_close(y_there.download(), y, tolerance(GetParam()), "y");
    expect_norm_close(there.download(), gradient, tolerance(GetParam()), "gradient");
  }
}

TEST_P(GpuRows, Rotary) {
  for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1, 2},
                                     {2, 5, 3, 1, 6},
                                     {2, 33, 4, 4, 16},
                                     {2, 129, 6, 2, 24},
                                     {3, 200, 32, 8, 128}}) {
    SCOPED_TRACE(std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_width));
    const Floats table = normals(shape.length * shape.head_width, 1);
    const Floats qkv = rounded(normals(shape.rows() * shape.qkv(), 2), GetParam());
    const DeviceArray table_there = up(table);
    for (const bool backward : {false, true}) {
      const DeviceArray there = up(qkv, GetParam());
      gpu().nn->rotary({}, shape, table_there.read(), backward, there.view());
      Floats wanted = qkv;
      host.rotary({}, shape, view(table), backward, view(wanted));
      expect_norm_close(there.download(), wanted, tolerance(GetParam()), "turned");
    }
  }
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

  // Without a table of positions: the rows of tokens, and gradients of them alone.
  ops.embedding_forward(context, shape, tokens_there.data(), up(table, dtype).read(), {},
                        y_there.view());
  ops.embedding_backward(context, shape, tokens_there.data(), up(dy, dtype).read(),
                         d_table_there.view(), {});
  host.embedding_forward({}, shape, ids.data(), view(table), {}, view(y));
  host.embedding_backward({}, shape, ids.data(), view(dy), view(d_table), {});
  expect_same_bits(y_there.download(), y, "y without positions");
  expect_same_bits(d_table_there.download(), d_table, "token gradient without positions");
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
    const auto targets = tokens(rows, vocab, 2);
    Floats gradient = rounded(normals(rows * vocab, 1, 4.0F), GetParam());
    Floats spread = poisoned(rows * stride);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      spread[i / vocab * stride + i % vocab] = gradient[i];
    }
    Floats loss = poisoned(rows);
    const DeviceTokens targets_there(targets);
    const DeviceArray logits = up(spread, GetParam());
    const DeviceArray loss_there = up(loss);
    gpu().nn->cross_entropy({}, rows, vocab, stride, targets_there.data(), true, 1.0F,
                            logits.view(), loss_there.view());
    host.cross_entropy({}, rows, vocab, vocab, targets.data(), true, 1.0F, view(gradient),
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
    gpu().nn->cross_entropy({}, rows, vocab, stride, targets_there.data(), false, 1.0F, lost.view(),
                            loss_only.view());
    expect_same_bits(loss_only.download(), loss_there.download(), "loss without gradient");
  }
}

TEST_P(GpuRows, CrossEntropyOfLargeLogitsAndNan) {
  const DeviceTokens targets({0, 1});
  const DeviceArray logits =
      up({1e4F, -1e4F, 0.0F, std::numeric_limits<float>::quiet_NaN()}, GetParam());
  const DeviceArray loss = up(poisoned(2));
  gpu().nn->cross_entropy({}, 2, 2, 2, targets.data(), true, 1.0F, logits.view(), loss.view());
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
  gpu().nn->cross_entropy({}, kRows, kVocab, kStride, targets.data(), true, 1.0F, logits,
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
