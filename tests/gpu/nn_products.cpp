// ctest: name=gpu_nn_products timeout=300 joined=no
// Matrix products with measured algorithms against sums in fp64: every epilogue, batches, inputs
// that are added, also in place. The product that times its candidates and the next one give the
// same bits, write nothing between the rows and keep no memory. The choice itself is tested too.
#include <cuda_runtime_api.h>

#include <array>
#include <limits>
#include <string>

#include "kernels/nn/cuda/fastest.hpp"
#include "kernels/nn/cuda/products.hpp"
#include "kernels/nn/math.hpp"
#include "lib/device/device.hpp"
#include "tests/support/device_array.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;
using cuda_ops::Epilogue;
using cuda_ops::Matrix;
using cuda_ops::Product;

const Device& gpu() {
  static const Device device = Device::cuda(0);
  return device;
}

constexpr std::size_t kGap = 8;  ///< elements between the rows of d

/// d = alpha a b + c with an epilogue, `batch` times; a [m, k] or its transpose, b [k, n] or its.
struct Case {
  std::string name;
  std::size_t m, n, k;
  Dtype inputs, output;
  bool a_transposed = false;
  bool b_transposed = false;
  enum class Added { nothing, another, itself } added = Added::nothing;
  Epilogue epilogue = Epilogue::none;
  std::size_t batch = 1;
  float alpha = 1.0F;
};

struct Outputs {
  Floats d, gelu_input;
};

/// Operands of a case in the memory of the GPU, and what must come out.
class Trial {
 public:
  explicit Trial(const Case& c)
      : c_(c),
        stride_(c.n + kGap),
        a_(rounded(normals(c.batch * c.m * c.k, 1), c.inputs)),
        b_(rounded(normals(c.batch * c.k * c.n, 2), c.inputs)),
        bias_(rounded(normals(c.n, 3), c.inputs)),
        added_(rows_of(rounded(normals(c.batch * c.m * c.n, 4), c.output))),
        gelu_input_(rows_of(rounded(normals(c.batch * c.m * c.n, 5), c.output))),
        a_gpu_(gpu(), a_, c.inputs),
        b_gpu_(gpu(), b_, c.inputs),
        bias_gpu_(gpu(), bias_, c.inputs),
        workspace_(gpu(), poisoned(cuda_ops::kProductWorkspace / sizeof(float)), Dtype::fp32) {}

  /// Runs the product once on poisoned outputs, or on c where it adds to itself.
  [[nodiscard]] Outputs run(bool autotune) const {
    const bool writes_gelu_input = c_.epilogue == Epilogue::gelu_bias;
    const bool reads_gelu_input = c_.epilogue == Epilogue::d_gelu;
    const bool in_place = c_.added == Case::Added::itself;
    const DeviceArray c(gpu(), added_, c_.output);
    const DeviceArray d(gpu(), in_place ? added_ : poisoned(added_.size()), c_.output);
    const DeviceArray gelu_input(
        gpu(), reads_gelu_input ? gelu_input_ : poisoned(gelu_input_.size()), c_.output);
    Product product{.m = c_.m,
                    .n = c_.n,
                    .k = c_.k,
                    .inputs = c_.inputs,
                    .output = c_.output,
                    .a = operand(a_gpu_, c_.a_transposed, c_.m, c_.k),
                    .b = operand(b_gpu_, c_.b_transposed, c_.k, c_.n),
                    .d = d.view().data,
                    .d_stride = stride_,
                    .epilogue = c_.epilogue,
                    .alpha = c_.alpha,
                    .batch = c_.batch,
                    .d_batch_stride = c_.m * stride_};
    if (c_.added == Case::Added::another) product.c = c.read().data;
    if (in_place) product.c = product.d;
    if (c_.epilogue == Epilogue::bias || writes_gelu_input) product.bias = bias_gpu_.read().data;
    if (reads_gelu_input || writes_gelu_input) {
      product.gelu_input = gelu_input.read().data;
      product.gelu_stride = stride_;
    }
    cuda_ops::multiply({.stream = {}, .workspace = workspace_.view(), .autotune = autotune},
                       product);
    expect_same_bits(c.download(), added_, c_.name + ": c");
    expect_same_bits(a_gpu_.download(), a_, c_.name + ": a");
    Outputs outputs{dense(d.download(), "d"), {}};
    if (writes_gelu_input) outputs.gelu_input = dense(gelu_input.download(), "GELU's input");
    return outputs;
  }

  /// In fp64.
  [[nodiscard]] Outputs expected() const {
    Outputs outputs;
    for (std::size_t s = 0; s < c_.batch; ++s) {
      for (std::size_t i = 0; i < c_.m; ++i) {
        for (std::size_t j = 0; j < c_.n; ++j) {
          const std::size_t at = (s * c_.m + i) * stride_ + j;
          double value = d(c_.alpha) * dot(s, i, j);
          if (c_.added != Case::Added::nothing) value += d(added_[at]);
          if (c_.epilogue == Epilogue::bias || c_.epilogue == Epilogue::gelu_bias) {
            value += d(bias_[j]);
          }
          if (c_.epilogue == Epilogue::gelu_bias) {
            outputs.gelu_input.push_back(static_cast<float>(value));
            value = d(Gelu::value(static_cast<float>(value)));
          }
          if (c_.epilogue == Epilogue::d_gelu) value *= d(Gelu::derivative(gelu_input_[at]));
          outputs.d.push_back(static_cast<float>(value));
        }
      }
    }
    return outputs;
  }

 private:
  /// Dense values as rows `stride_` apart, with a number between them that nothing may change.
  [[nodiscard]] Floats rows_of(const Floats& values) const {
    Floats wide(values.size() / c_.n * stride_, kBetween);
    for (std::size_t i = 0; i < values.size(); ++i) wide[i / c_.n * stride_ + i % c_.n] = values[i];
    return wide;
  }
  [[nodiscard]] Floats dense(const Floats& wide, const std::string& what) const {
    Floats values;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (i % stride_ < c_.n) {
        values.push_back(wide[i]);
      } else {
        EXPECT_TRUE(std::isnan(wide[i]) || wide[i] == kBetween)
            << c_.name << ": " << what << '[' << i << "] between the rows became " << wide[i];
      }
    }
    return values;
  }
  [[nodiscard]] static Matrix operand(const DeviceArray& array, bool transposed, std::size_t rows,
                                      std::size_t columns) {
    return {.data = array.read().data,
            .stride = transposed ? rows : columns,
            .transposed = transposed,
            .batch_stride = rows * columns};
  }
  [[nodiscard]] double dot(std::size_t s, std::size_t i, std::size_t j) const {
    double sum = 0.0;
    for (std::size_t l = 0; l < c_.k; ++l) {
      const std::size_t of_a = c_.a_transposed ? l * c_.m + i : i * c_.k + l;
      const std::size_t of_b = c_.b_transposed ? j * c_.k + l : l * c_.n + j;
      sum += d(a_[s * c_.m * c_.k + of_a]) * d(b_[s * c_.k * c_.n + of_b]);
    }
    return sum;
  }

  static constexpr float kBetween = -77.0F;
  Case c_;
  std::size_t stride_;
  Floats a_, b_, bias_, added_, gelu_input_;
  DeviceArray a_gpu_, b_gpu_, bias_gpu_, workspace_;
};

constexpr Dtype kBf16 = Dtype::bf16;
constexpr Dtype kFp32 = Dtype::fp32;

std::vector<Case> cases() {
  using Added = Case::Added;
  std::vector<Case> all{
      {"plain bf16", 192, 136, 320, kBf16, kBf16, false, true},
      {"plain fp32", 192, 136, 320, kFp32, kFp32, false, true},
      {"residual", 192, 136, 320, kBf16, kBf16, false, true, Added::another},
      {"residual and bias", 192, 136, 320, kBf16, kBf16, false, true, Added::another,
       Epilogue::bias},
      {"weight gradient, added in place", 136, 192, 512, kBf16, kFp32, true, false, Added::itself},
      {"weight gradient fp32, added in place", 136, 192, 512, kFp32, kFp32, true, false,
       Added::itself},
      {"added in place, long sums", 64, 64, 4096, kBf16, kFp32, true, false, Added::itself},
      {"weight gradient, written", 136, 192, 512, kBf16, kFp32, true, false},
      {"GELU and its input", 192, 256, 128, kBf16, kBf16, false, true, Added::nothing,
       Epilogue::gelu_bias},
      {"gradient of GELU", 192, 256, 128, kBf16, kBf16, false, false, Added::nothing,
       Epilogue::d_gelu},
      {"odd sizes", 17, 33, 65, kBf16, kBf16, false, true},
  };
  all.push_back({"batch", 64, 64, 72, kBf16, kFp32, false, true});
  all.back().batch = 3;
  all.back().alpha = 0.125F;
  return all;
}

/// Tensor cores do not round each sum of exact bf16 products.
double tolerance(const Case& c) {
  return c.output == kBf16 ? 1e-2 : c.inputs == kBf16 ? 1e-4 : 1e-5;
}

TEST(GpuProducts, MeasuredOnesAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Trial trial(c);
    const Outputs expected = trial.expected();
    const Outputs first = trial.run(true);  // times its candidates
    expect_norm_close(first.d, expected.d, tolerance(c), "d");
    expect_norm_close(first.gelu_input, expected.gelu_input, tolerance(c), "GELU's input");
    const Outputs again = trial.run(true);
    expect_same_bits(again.d, first.d, "d, again");
    expect_same_bits(again.gelu_input, first.gelu_input, "GELU's input, again");
    const Outputs by_heuristics = trial.run(false);
    expect_norm_close(by_heuristics.d, expected.d, tolerance(c), "d by the heuristics");
  }
}

/// A choice that other products made by measuring is not used where the same bits are promised.
TEST(GpuProducts, OthersKeepTheHeuristicsChoice) {
  const Case c{"kept", 192, 200, 320, kBf16, kFp32, true, false, Case::Added::itself};
  const Trial trial(c);
  const Outputs before = trial.run(false);
  (void)trial.run(true);
  expect_same_bits(trial.run(false).d, before.d, "d");
}

TEST(GpuProducts, MeasuringKeepsNoMemory) {
  const Trial trial({"large", 4096, 2048, 16, kBf16, kFp32, true, false, Case::Added::itself});
  (void)trial.run(false);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::size_t used = gpu().runtime->memory_use().current;
  int device = 0;
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, device), cudaSuccess);
  (void)trial.run(true);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(gpu().runtime->memory_use().current, used);
  std::uint64_t held = 1;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &held), cudaSuccess);
  EXPECT_EQ(held, 0U) << "bytes of the device's own pool that are not freed";
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &held), cudaSuccess);
  EXPECT_EQ(held, 0U) << "bytes of the device's own pool that were not given back";
}

TEST(GpuFastest, TheFirstIsLeftForWhatIsWorthIt) {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  const auto index = [](std::vector<float> times) { return cuda_ops::shortest(times); };
  EXPECT_EQ(index({5.0F}), 0U);
  EXPECT_EQ(index({kNever}), 0U);
  EXPECT_EQ(index({1.0F, 0.99F, 0.985F}), 0U);
  EXPECT_EQ(index({1.0F, 0.97F, 0.5F, 0.6F}), 2U);
  EXPECT_EQ(index({kNever, 3.0F, kNever, 2.0F}), 3U);
}

/// Copies of other sizes stand for faster and slower ways.
TEST(GpuFastest, FindsTheFastest) {
  constexpr std::size_t kBytes = std::size_t{256} << 20U;
  const Buffer from = Buffer::zeros(kBytes / sizeof(float), Dtype::fp32, gpu().memory);
  const Buffer to(kBytes, gpu().memory);
  const std::array<std::size_t, 4> bytes = {kBytes, 0, kBytes / 8, kBytes / 2};
  std::array<int, 4> runs{};
  const std::size_t best = cuda_ops::fastest(nullptr, bytes.size(), [&](std::size_t i) {
    ++runs[i];
    if (bytes[i] == 0) return false;  // no such way
    const auto source = from.view(bytes[i] / sizeof(float), Dtype::fp32);
    const auto target = to.view(bytes[i] / sizeof(float), Dtype::fp32);
    return cudaMemcpyAsync(target.data, source.data, bytes[i], cudaMemcpyDeviceToDevice, nullptr) ==
           cudaSuccess;
  });
  EXPECT_EQ(best, 2U);
  EXPECT_EQ(runs[1], 1) << "asked again after it had said no";
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_GE(runs[0], 5);
  EXPECT_EQ(cuda_ops::fastest(nullptr, 2, [](std::size_t) { return false; }), 0U);
}

}  // namespace
}  // namespace zeropp::nn
