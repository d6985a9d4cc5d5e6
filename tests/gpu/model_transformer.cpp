// ctest: name=gpu_model_transformer timeout=300
// GPT and Llama on the GPU against the host's with the same weights: loss and every
// gradient tensor, in both dtypes, over head widths, vocabularies and both kinds of head; the same
// bits in a second run, with recomputation, with inputs on the host in between, and where gradients
// are written instead of added to zeros; and no allocation after the first.
#include <memory>
#include <string>

#include "lib/device/device.hpp"
#include "lib/model/registry.hpp"
#include "tests/support/device_array.hpp"
#include "tests/support/local_model.hpp"

namespace zeropp::model {
namespace {

struct Shape {
  std::size_t layers, hidden, heads, length, sequences, vocab;
  bool tied;
  const char* model = "gpt";
  std::size_t kv_heads = 0;
  bool biases = false;
};

constexpr Shape kShapes[] = {
    {2, 24, 3, 9, 2, 13, true},       // heads of 8
    {2, 48, 2, 17, 3, 257, false},    // 24
    {2, 128, 2, 33, 2, 101, true},    // 64
    {1, 256, 2, 40, 2, 1001, false},  // 128
    {2, 15, 3, 7, 2, 11, true},       // 5: nothing is aligned
    {2, 24, 3, 9, 2, 13, true, "llama"},
    {2, 128, 4, 33, 2, 101, false, "llama", 2, true},
    {1, 256, 4, 40, 2, 1001, false, "llama", 1},
    {2, 18, 3, 7, 2, 11, true, "llama", 1, true},  // heads of 6
};

std::string text_of(const Shape& s) {
  return std::string(s.model) + ", " + std::to_string(s.layers) + " x " + std::to_string(s.hidden) +
         ", " + std::to_string(s.heads) + " heads, " + std::to_string(s.length) +
         " tokens, vocabulary " + std::to_string(s.vocab) + (s.tied ? ", tied" : ", untied");
}

/// A model on one device and a batch for it.
struct Trial {
  Trial(const Shape& shape_, Dtype compute_, const Device& device_, bool recompute = false,
        bool on_host = false)
      : shape(shape_),
        compute(compute_),
        device(device_),
        model(make_model(options(recompute, on_host), {.micro_batch = shape.sequences,
                                                       .vocab_size = shape.vocab,
                                                       .device = device,
                                                       .compute = compute,
                                                       .deterministic = true,
                                                       .timers = timers})),
        local(*model, compute, device),
        tokens(test::tokens(shape.sequences * shape.length, shape.vocab, 1)),
        targets(test::tokens(shape.sequences * shape.length, shape.vocab, 2)) {
    local.initialise(7, 0.05F);  // every tensor matters, and attention is not sharp
  }

  [[nodiscard]] Options options(bool recompute, bool on_host) const {
    Options result;
    result.name = shape.model;
    result.num_layers = shape.layers;
    result.hidden_size = shape.hidden;
    result.num_attention_heads = shape.heads;
    result.num_key_value_heads = shape.kv_heads;
    result.add_qkv_bias = shape.biases;
    result.seq_length = shape.length;
    result.tied_head = shape.tied;
    result.recompute_activations = recompute;
    result.cpu_checkpointing = on_host;
    return result;
  }

  [[nodiscard]] zero::Batch batch() const {
    // Small gradients vanish in fp16 without.
    const float loss_scale = compute == Dtype::fp16 ? 1024.0F : 1.0F;
    return {shape.sequences, shape.length, tokens, targets, loss_scale};
  }

  /// Forward and backward on cleared gradients; returns the loss.
  double step() {
    for (auto& unit : local.gradients) std::fill(unit.begin(), unit.end(), 0.0F);
    const double loss = local.forward(batch(), true);
    local.backward();
    return loss;
  }

  [[nodiscard]] test::Floats gradient(std::size_t unit, const zero::Tensor& tensor) const {
    const auto from = local.gradients[unit].begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    return {from, from + static_cast<std::ptrdiff_t>(tensor.count())};
  }

  Shape shape;
  Dtype compute;
  Device device;
  trace::Timers timers;
  std::unique_ptr<zero::UnitModel> model;
  test::LocalModel local;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

class GpuTransformer : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, GpuTransformer, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& entry) { return std::string(name_of(entry.param)); });

TEST_P(GpuTransformer, LossAndGradientsAreTheHosts) {
  for (const Shape& shape : kShapes) {
    // Llama rounds to 16 bits more often: what is turned, and the gate's parts.
    const double narrow = std::string(shape.model) == "llama" ? 4e-2 : 2e-2;
    const double tolerance = GetParam() == Dtype::fp32 ? 1e-5 : narrow;
    SCOPED_TRACE(text_of(shape));
    Trial host(shape, GetParam(), Device::host());
    Trial gpu(shape, GetParam(), Device::cuda(0));
    const double expected = host.step();
    EXPECT_NEAR(gpu.step(), expected, tolerance * expected);
    for (std::size_t u = 0; u < gpu.model->units().size(); ++u) {
      for (const zero::Tensor& tensor : gpu.model->units()[u].tensors) {
        test::expect_norm_close(gpu.gradient(u, tensor), host.gradient(u, tensor), tolerance,
                                tensor.name);
      }
    }
  }
}

TEST_P(GpuTransformer, TwoRunsGiveTheSameBits) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(text_of(shape));
    Trial gpu(shape, GetParam(), Device::cuda(0));
    const double loss = gpu.step();
    const auto once = gpu.local.gradients;
    const std::size_t allocations = gpu.device.runtime->memory_use().allocations;
    EXPECT_EQ(gpu.step(), loss);
    EXPECT_EQ(gpu.device.runtime->memory_use().allocations, allocations);
    for (std::size_t u = 0; u < once.size(); ++u) {
      test::expect_same_bits(gpu.local.gradients[u], once[u], gpu.model->units()[u].name);
    }
  }
}

/// Recomputing runs the same kernels again on the same values.
TEST_P(GpuTransformer, RecomputingChangesNoBit) {
  for (Shape shape : kShapes) {
    shape.layers += 2;
    Trial kept(shape, GetParam(), Device::cuda(0));
    Trial recomputed(shape, GetParam(), Device::cuda(0), true);
    SCOPED_TRACE(text_of(shape) + ", " + kept.model->kernels());
    const double loss = kept.step();
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(recomputed.step(), loss);
      for (std::size_t u = 0; u < kept.local.gradients.size(); ++u) {
        test::expect_same_bits(recomputed.local.gradients[u], kept.local.gradients[u],
                               kept.model->units()[u].name);
      }
    }
    const zero::MemoryReport memory = recomputed.model->memory();
    EXPECT_EQ(memory.actual, memory.predicted);
    EXPECT_LT(memory.actual, kept.model->memory().actual);
  }
}

/// Copies to the host and back beside compute, in micro-batches that follow one another.
TEST_P(GpuTransformer, InputsOnTheHostChangeNoBit) {
  for (Shape shape : kShapes) {
    shape.layers += 5;
    Trial there(shape, GetParam(), Device::cuda(0), true);
    Trial on_host(shape, GetParam(), Device::cuda(0), true, true);
    SCOPED_TRACE(text_of(shape));
    const double loss = there.step();
    for (int run = 0; run < 4; ++run) {
      (void)on_host.local.forward(on_host.batch(), false);
      const std::size_t allocations = on_host.device.runtime->memory_use().allocations;
      EXPECT_EQ(on_host.step(), loss);
      EXPECT_EQ(on_host.device.runtime->memory_use().allocations, allocations);
      for (std::size_t u = 0; u < there.local.gradients.size(); ++u) {
        test::expect_same_bits(on_host.local.gradients[u], there.local.gradients[u],
                               there.model->units()[u].name);
      }
    }
    const zero::MemoryReport memory = on_host.model->memory();
    EXPECT_EQ(memory.actual, memory.predicted);
    const std::vector<zero::MemoryReport> away = on_host.model->offloaded_memory();
    ASSERT_EQ(away.size(), 1U);
    EXPECT_EQ(away.front().actual, away.front().predicted);
    EXPECT_EQ(there.model->memory().actual - memory.actual, away.front().actual);
  }
}

TEST_P(GpuTransformer, FreshGradientsAreWritten) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(text_of(shape));
    Trial gpu(shape, GetParam(), Device::cuda(0));
    gpu.step();
    const auto added = gpu.local.gradients;
    for (auto& unit : gpu.local.gradients) unit = test::poisoned(unit.size());
    gpu.local.forward(gpu.batch(), true);
    gpu.local.backward(true);
    for (std::size_t u = 0; u < added.size(); ++u) {
      const zero::Unit& unit = gpu.model->units()[u];
      test::Floats expected = test::poisoned(unit.count);  // and so it stays between tensors
      for (const zero::Tensor& tensor : unit.tensors) {
        const auto at = static_cast<std::ptrdiff_t>(tensor.offset);
        std::copy_n(added[u].begin() + at, tensor.count(), expected.begin() + at);
      }
      test::expect_same_bits(gpu.local.gradients[u], expected, unit.name);
    }
  }
}

/// Tokens pass through memory that is used again: many micro-batches without a wait between them.
TEST_P(GpuTransformer, MicroBatchesFollowOneAnother) {
  Trial gpu(kShapes[1], GetParam(), Device::cuda(0));
  const auto batch = [&](std::uint64_t index) {
    gpu.tokens = test::tokens(gpu.tokens.size(), gpu.shape.vocab, 10 + index);
    return zero::Batch{gpu.shape.sequences, gpu.shape.length, gpu.tokens, gpu.tokens};
  };
  constexpr std::uint64_t kBatches = 7;
  double sum = 0.0;
  for (std::uint64_t i = 0; i < kBatches; ++i) sum += gpu.local.forward(batch(i), false);
  for (std::uint64_t i = 0; i < kBatches; ++i) gpu.local.enqueue_forward(batch(i), false);
  EXPECT_EQ(gpu.local.take_loss(), sum);
}

}  // namespace
}  // namespace zeropp::model
