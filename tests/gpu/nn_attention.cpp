// ctest: name=gpu_nn_attention timeout=600
// Both attentions of the GPU, cuDNN's and the products', against the host's: heads of many widths,
// keys of their own or shared, sequences of many lengths, fp32 and bf16, forward and backward; the
// same bits twice where they are promised; and the choice between the two.
#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "kernels/nn/cuda/attention_path.hpp"
#include "lib/device/compute_device.hpp"
#include "tests/support/device_array.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;
using cuda_ops::AttentionPath;

const ComputeDevice& gpu() {
  static const ComputeDevice device = Device::cuda(0);
  return device;
}

constexpr std::size_t kWidths[] = {8, 24, 64, 96, 128, 192};
constexpr std::size_t kLengths[] = {1, 7, 64, 129, 1024};

/// `group`: query heads that read the same keys.
AttentionShape shape_of(std::size_t width, std::size_t length, std::size_t group = 1) {
  // The host takes its time for long sequences of many heads.
  const std::size_t kv_heads = length > 500 ? 2 / std::min<std::size_t>(group, 2) : 3;
  return {.sequences = 2,
          .length = length,
          .heads = group * kv_heads,
          .kv_heads = kv_heads,
          .head_width = width};
}

std::string text_of(const AttentionShape& s, Dtype dtype) {
  return std::to_string(s.sequences) + " x " + std::to_string(s.length) + " tokens, " +
         std::to_string(s.heads) + " heads of " + std::to_string(s.head_width) + ", " +
         std::to_string(s.kv_heads) + " of keys, " + std::string(name_of(dtype));
}

/// Queries, keys, values and a gradient, rounded to the dtype, and what the host makes of them.
struct Reference {
  Reference(const AttentionShape& shape_, Dtype dtype_)
      : shape(shape_),
        dtype(dtype_),
        qkv(rounded(normals(shape.rows() * shape.qkv(), 1), dtype)),
        dy(rounded(normals(shape.rows() * shape.queries(), 2), dtype)),
        y(poisoned(shape.rows() * shape.queries())),
        d_qkv(poisoned(shape.rows() * shape.qkv())) {
    const NnOps& ops = host_nn_ops();
    Floats saved(ops.attention_saved_bytes(shape, Dtype::fp32) / sizeof(float));
    Floats workspace(ops.attention_workspace(shape, Dtype::fp32));
    NnContext context;
    context.workspace = view(workspace);
    ops.attention_forward(context, shape, view(qkv), view(saved), view(y));
    ops.attention_backward(context, shape, view(dy), view(qkv), view(std::as_const(saved)),
                           view(std::as_const(y)), view(d_qkv));
  }

  AttentionShape shape;
  Dtype dtype;
  Floats qkv, dy, y, d_qkv;
};

struct Result {
  Floats y, d_qkv;
};

Result run(const AttentionPath& path, const Reference& r, const AttentionShape& shape) {
  const auto floats = [](std::size_t bytes) { return (bytes + 3) / 4; };
  const DeviceArray workspace(gpu(), poisoned(floats(path.workspace_bytes(shape, r.dtype))),
                              Dtype::fp32);
  const DeviceArray saved(gpu(), poisoned(floats(path.saved_bytes(shape, r.dtype))), Dtype::fp32);
  const DeviceArray qkv(gpu(), r.qkv, r.dtype);
  const DeviceArray dy(gpu(), r.dy, r.dtype);
  const DeviceArray y(gpu(), poisoned(r.y.size()), r.dtype);
  const DeviceArray d_qkv(gpu(), poisoned(r.d_qkv.size()), r.dtype);
  const NnContext context{.stream = {}, .workspace = workspace.view()};
  path.forward(context, shape, qkv.read(), saved.view(), y.view());
  path.backward(context, shape, dy.read(), qkv.read(), saved.read(), y.read(), d_qkv.view());
  return {y.download(), d_qkv.download()};
}

/// Queries (0), keys (1) or values (2) of [rows, qkv()].
Floats part_of(const Floats& qkv, const AttentionShape& shape, std::size_t which) {
  const std::size_t ends[] = {shape.queries(), shape.queries() + shape.keys(), shape.qkv()};
  Floats values;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const std::size_t column = i % shape.qkv();
    if (column < ends[which] && (which == 0 || column >= ends[which - 1])) values.push_back(qkv[i]);
  }
  return values;
}

void check(const AttentionPath& path, const Reference& r) {
  // The host keeps probabilities and dS in fp32 where the GPU multiplies 16-bit values.
  const bool narrow = r.dtype != Dtype::fp32;
  const double forward = narrow ? 1e-2 : 1e-5;
  const double backward = narrow ? 2e-2 : 1e-5;
  for (const bool deterministic : {true, false}) {
    SCOPED_TRACE(deterministic ? "deterministic" : "not deterministic");
    AttentionShape shape = r.shape;
    shape.deterministic = deterministic;
    const Result got = run(path, r, shape);
    expect_norm_close(got.y, r.y, forward, "y");
    const char* const names[] = {"dQ", "dK", "dV"};
    for (std::size_t n = 0; n < 3; ++n) {
      const Floats wanted = part_of(r.d_qkv, r.shape, n);
      if (r.shape.length == 1 && n < 2) {  // the softmax of one score is constant
        for (const float value : part_of(got.d_qkv, r.shape, n)) {
          ASSERT_NEAR(value, 0.0F, narrow ? 5e-2F : 1e-5F) << names[n];
        }
      } else {
        expect_norm_close(part_of(got.d_qkv, r.shape, n), wanted, backward, names[n]);
      }
    }
    const Result again = run(path, r, shape);
    expect_same_bits(again.y, got.y, "y again");
    if (deterministic) expect_same_bits(again.d_qkv, got.d_qkv, "gradient again");
  }
}

class GpuAttention : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Width, GpuAttention, testing::ValuesIn(kWidths),
                         testing::PrintToStringParamName());

TEST_P(GpuAttention, ProductsAreTheHosts) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const std::size_t length : kLengths) {
      for (const std::size_t group : {1U, 3U}) {
        const Reference reference(shape_of(GetParam(), length, group), dtype);
        SCOPED_TRACE(text_of(reference.shape, dtype));
        check(cuda_ops::product_attention(), reference);
      }
    }
  }
}

TEST_P(GpuAttention, CudnnIsTheHosts) {
  const auto& [path, absence] = cuda_ops::fused_attention();
  if (path == nullptr) GTEST_SKIP() << absence;
  for (const std::size_t length : kLengths) {
    for (const std::size_t group : {1U, 4U}) {
      const AttentionShape shape = shape_of(GetParam(), length, group);
      for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
        const std::string refusal = path->refusal(shape, dtype);
        if (!refusal.empty()) {
          std::printf("%s: %s: %s\n", path->name().c_str(), text_of(shape, dtype).c_str(),
                      refusal.c_str());
          // The widths of common models it must take.
          EXPECT_TRUE(length == 1 || (GetParam() != 64 && GetParam() != 128)) << refusal;
          continue;
        }
        const Reference reference(shape, dtype);
        SCOPED_TRACE(text_of(shape, dtype));
        check(*path, reference);
      }
    }
  }
}

/// Heads whose rows begin at odd elements: products only.
TEST(GpuAttentionProducts, OddWidths) {
  for (const std::size_t width : {1UL, 5UL, 33UL}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      const Reference reference(shape_of(width, 65), dtype);
      SCOPED_TRACE(text_of(reference.shape, dtype));
      check(cuda_ops::product_attention(), reference);
    }
  }
}

TEST(GpuAttentionChoice, TheNameSaysWhichOneRunsAndWhy) {
  const NnOps& ops = *gpu().nn;
  const auto& [fused, absence] = cuda_ops::fused_attention();
  const AttentionShape shape = shape_of(64, 1024);
  const auto products = [&](const std::string& reason) {
    return "cublaslt+softmax (" + (fused == nullptr ? absence : reason) + ")";
  };
  EXPECT_EQ(ops.attention_name(shape, Dtype::fp32),
            products("cuDNN's attention is of 16-bit types"));
  EXPECT_EQ(ops.attention_name(shape_of(5, 64), Dtype::bf16),
            products("the head's width is not a multiple of 8"));
  EXPECT_EQ(ops.attention_name(shape, Dtype::bf16),
            fused != nullptr ? fused->name() : products(""));
  std::printf("attention in bf16: %s\n", ops.attention_name(shape, Dtype::bf16).c_str());
}

/// A fused attention that refuses some lengths.
class Picky final : public AttentionPath {
 public:
  explicit Picky(std::vector<std::size_t> refused) : refused_(std::move(refused)) {}
  [[nodiscard]] std::string name() const override { return "picky"; }
  [[nodiscard]] std::string refusal(const AttentionShape& shape, Dtype) const override {
    const bool no = std::count(refused_.begin(), refused_.end(), shape.length) > 0;
    return no ? "not\nthis length" : "";
  }
  [[nodiscard]] std::size_t saved_bytes(const AttentionShape&, Dtype) const override { return 0; }
  [[nodiscard]] std::size_t workspace_bytes(const AttentionShape&, Dtype) const override {
    return 0;
  }
  void forward(const NnContext&, const AttentionShape&, ConstView, View, View) const override {}
  void backward(const NnContext&, const AttentionShape&, ConstView, ConstView, ConstView, ConstView,
                View) const override {}

 private:
  std::vector<std::size_t> refused_;
};

/// The longest sequences of the model decide for all: its memory is sized for their path.
TEST(GpuAttentionChoice, TheLongestSequencesDecide) {
  const auto chosen = [](const Picky& path, std::size_t length, std::size_t longest) {
    AttentionShape shape = shape_of(64, length);
    shape.longest = longest;
    return cuda_ops::text_of(cuda_ops::choose_attention({&path, ""}, shape, Dtype::bf16));
  };
  const Picky no_short({1, 7});
  const Picky no_long({1024});
  const std::string products = "cublaslt+softmax (not this length)";
  EXPECT_EQ(chosen(no_short, 1024, 1024), "picky");
  EXPECT_EQ(chosen(no_short, 7, 1024), "picky");
  EXPECT_EQ(chosen(no_short, 7, 0), products);
  EXPECT_EQ(chosen(no_short, 7, 7), products);
  EXPECT_EQ(chosen(no_short, 1, 1), products);
  EXPECT_EQ(chosen(no_short, 1, 1024), "cublaslt+softmax (a sequence has a single token)");
  EXPECT_EQ(chosen(no_long, 1024, 0), products);
  EXPECT_EQ(chosen(no_long, 7, 1024), products);
  EXPECT_EQ(chosen(no_long, 7, 0), "picky");
  EXPECT_EQ(cuda_ops::text_of(
                cuda_ops::choose_attention({nullptr, "absent"}, shape_of(64, 7), Dtype::bf16)),
            "cublaslt+softmax (absent)");
}

/// A model allocates for its largest micro-batch and runs smaller ones in that memory.
TEST(GpuAttentionChoice, SmallerShapesNeedNoMoreMemory) {
  const NnOps& ops = *gpu().nn;
  AttentionShape largest = shape_of(64, 130);
  largest.longest = largest.length;
  for (const bool deterministic : {true, false}) {
    SCOPED_TRACE(deterministic ? "deterministic" : "not deterministic");
    largest.deterministic = deterministic;
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      for (const std::size_t length : {1UL, 2UL, 17UL, 64UL, 129UL, 130UL}) {
        for (const std::size_t sequences : {1UL, 2UL}) {
          AttentionShape shape = largest;
          shape.length = length;
          shape.sequences = sequences;
          EXPECT_LE(ops.attention_saved_bytes(shape, dtype),
                    ops.attention_saved_bytes(largest, dtype))
              << text_of(shape, dtype);
          EXPECT_LE(ops.attention_workspace(shape, dtype), ops.attention_workspace(largest, dtype))
              << text_of(shape, dtype);
        }
      }
    }
  }
}

/// Plans are made where cuDNN is absent. Their workspaces equal the workspaces that cuDNN asks for,
/// where nothing is padded.
TEST(GpuAttentionChoice, PlansCountTheWorkspaceThatCudnnAsksFor) {
  if (cuda_ops::fused_attention().path == nullptr) {
    GTEST_SKIP() << cuda_ops::fused_attention().absence;
  }
  for (const bool deterministic : {true, false}) {
    for (const std::size_t length : {128UL, 1024UL, 4096UL}) {
      for (const std::size_t sequences : {1UL, 4UL}) {
        for (const std::size_t group : {1U, 4U}) {
          AttentionShape shape = shape_of(128, length, group);
          shape.sequences = sequences;
          shape.deterministic = deterministic;
          EXPECT_EQ(gpu().nn->attention_name(shape, Dtype::bf16),
                    cuda_ops::fused_attention().path->name());
          EXPECT_EQ(gpu().nn->attention_workspace(shape, Dtype::bf16),
                    planned_sizes(Backend::cuda).attention_workspace(shape, Dtype::bf16))
              << text_of(shape, Dtype::bf16) << (deterministic ? ", deterministic" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::nn
