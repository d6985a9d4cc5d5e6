// ctest: name=model_transformer labels=sanitize
// GPT and Llama as the engine sees them: their units, their gradients by finite differences, reuse
// of activations, timers, and what they refuse.
#include <array>
#include <set>

#include "lib/base/error.hpp"
#include "lib/model/transformer.hpp"
#include "tests/support/late_runtime.hpp"
#include "tests/support/local_model.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::model {
namespace {

using Category = trace::Timers::Category;

Options small(const std::string& name, bool tied, std::size_t heads = 3) {
  Options options;
  options.name = name;
  options.num_layers = 2;
  options.hidden_size = 24;
  options.num_attention_heads = heads;
  options.seq_length = 9;
  options.tied_head = tied;
  if (name == "llama") {
    options.num_key_value_heads = 1;
    options.ffn_hidden_size = 40;
  }
  return options;
}

struct Fixture {
  explicit Fixture(const Options& options_, std::size_t micro_batch = 2, std::size_t vocab_ = 13,
                   Dtype compute = Dtype::fp32, const Device& device_ = Device::host())
      : options(options_),
        vocab(vocab_),
        device(device_),
        model(options, {.micro_batch = micro_batch,
                        .vocab_size = vocab,
                        .device = device,
                        .compute = compute,
                        .timers = timers}),
        local(model, compute) {
    local.initialise(7, 0.1F);
  }
  zero::Batch batch(std::size_t sequences, std::size_t length, std::uint64_t stream) {
    tokens = test::tokens(sequences * length, vocab, 2 * stream);
    targets = test::tokens(sequences * length, vocab, 2 * stream + 1);
    return {sequences, length, tokens, targets};
  }
  void clear_gradients() {
    for (auto& unit : local.gradients) std::fill(unit.begin(), unit.end(), 0.0F);
  }

  Options options;
  std::size_t vocab;
  Device device;
  trace::Timers timers;
  Transformer model;
  test::LocalModel local;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

class Models : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Models, testing::Values("gpt", "llama"),
                         [](const auto& entry) { return std::string(entry.param); });

TEST_P(Models, UnitsAndLayers) {
  const Fixture tied(small(GetParam(), true));
  const Fixture untied(small(GetParam(), false));
  ASSERT_EQ(tied.model.units().size(), 4U);
  EXPECT_EQ(tied.model.units()[0].name, "embedding");
  EXPECT_EQ(tied.model.units()[1].name, "h.0");
  EXPECT_EQ(tied.model.units()[3].name, "head");
  EXPECT_EQ(tied.model.layers().back().units, (std::vector<std::size_t>{3, 0}));
  EXPECT_EQ(untied.model.layers().back().units, (std::vector<std::size_t>{3}));
  if (tied.options.name == "gpt") {
    EXPECT_EQ(tied.model.units()[0].parameters(), 13U * 24U + 9U * 24U);
    EXPECT_EQ(tied.model.units()[1].parameters(), 12U * 24U * 24U + 13U * 24U);
    EXPECT_EQ(untied.model.units()[3].parameters(), 2U * 24U + 13U * 24U);
  } else {
    EXPECT_EQ(tied.model.units()[0].parameters(), 13U * 24U);
    EXPECT_EQ(tied.model.units()[1].parameters(),
              2U * 24U + (24U + 2U * 8U) * 24U + 24U * 24U + 3U * 40U * 24U);
    EXPECT_EQ(untied.model.units()[3].parameters(), 24U + 13U * 24U);
  }
  for (const zero::Unit& unit : untied.model.units()) {
    std::size_t end = 0;
    for (const zero::Tensor& tensor : unit.tensors) {
      EXPECT_EQ(tensor.offset % 64, 0U) << tensor.name;
      EXPECT_GE(tensor.offset, end) << tensor.name;
      end = tensor.offset + tensor.count();
      EXPECT_EQ(tensor.decay, tensor.shape.size() == 2) << tensor.name;
    }
    EXPECT_EQ(unit.count, (end + 63) / 64 * 64);
  }
}

TEST_P(Models, InitialisationIsThatOfGpt2) {
  const Fixture fixture(small(GetParam(), false));
  for (const zero::Unit& unit : fixture.model.units()) {
    for (const zero::Tensor& tensor : unit.tensors) {
      const bool matrix = tensor.shape.size() == 2;
      const bool norm_weight =
          tensor.name.find("ln_") != std::string::npos && tensor.name.ends_with(".weight");
      const bool residual = tensor.name.ends_with("proj.weight");
      EXPECT_EQ(tensor.init.constant, norm_weight ? 1.0F : 0.0F) << tensor.name;
      EXPECT_FLOAT_EQ(tensor.init.scale, !matrix ? 0.0F : residual ? 0.01F : 0.02F) << tensor.name;
    }
  }
}

/// At the usual initial weights the model knows nothing: the loss is that of a uniform guess, give
/// or take logits with a standard deviation of 0.02 sqrt(24) = 0.1 over 18 targets.
TEST_P(Models, FirstLossIsLogOfTheVocabulary) {
  Fixture fixture(small(GetParam(), true), 2, 257);
  fixture.local.initialise(7);
  EXPECT_NEAR(fixture.local.forward(fixture.batch(2, 9, 1), false), std::log(257.0), 0.1);
}

std::vector<Options> of_gradients() {
  std::vector<Options> all;
  for (const bool tied : {false, true}) {
    for (const std::size_t heads : {1U, 3U, 4U}) {
      // Narrower than the values of attention, and wider.
      for (const std::size_t ffn : {0U, 17U, 130U}) {
        all.push_back(small("gpt", tied, heads));
        all.back().ffn_hidden_size = ffn;
      }
    }
    all.push_back(small("gpt", tied, 6));
    all.back().num_key_value_heads = 2;
    all.back().head_dim = 5;
    all.back().norm_eps = 0.1;
    // Heads, heads of keys, width of a head, width of the MLP.
    for (const auto& [heads, keys, width, ffn] :
         {std::array<std::size_t, 4>{1, 1, 0, 17}, {4, 4, 0, 31}, {6, 2, 4, 0}, {4, 1, 10, 7}}) {
      Options options = small("llama", tied, heads);
      options.num_key_value_heads = keys;
      options.head_dim = width;
      options.ffn_hidden_size = ffn;
      options.add_qkv_bias = keys > 1;
      options.rope_theta = keys > 1 ? 100 : 10000;
      options.norm_eps = 0.01;
      all.push_back(options);
    }
  }
  return all;
}

std::string text_of(const Options& options) {
  return options.name + "_" + (options.tied_head ? "tied_" : "untied_") +
         std::to_string(options.num_attention_heads) + "_" + std::to_string(kv_heads(options)) +
         "_" + std::to_string(head_width(options)) + "_" + std::to_string(ffn_width(options));
}

class Gradient : public testing::TestWithParam<Options> {};
INSTANTIATE_TEST_SUITE_P(, Gradient, testing::ValuesIn(of_gradients()),
                         [](const auto& entry) { return text_of(entry.param); });

/// Central differences of the loss along a random direction in each tensor.
TEST_P(Gradient, AgreesWithFiniteDifferences) {
  const Options& options = GetParam();
  Fixture fixture(options);
  const zero::Batch batch = fixture.batch(2, 9, 3);
  fixture.local.forward(batch, true);
  fixture.local.backward();
  std::uint64_t stream = 100;
  for (std::size_t u = 0; u < fixture.model.units().size(); ++u) {
    for (const zero::Tensor& tensor : fixture.model.units()[u].tensors) {
      auto& weights = fixture.local.masters[u];
      const std::vector<float> original = weights;
      const test::Floats direction = test::normals(tensor.count(), ++stream);
      double expected = 0.0;
      double length = 0.0;
      for (std::size_t i = 0; i < tensor.count(); ++i) {
        expected += test::d(direction[i]) * test::d(fixture.local.gradients[u][tensor.offset + i]);
        length += test::d(direction[i]) * test::d(direction[i]);
      }
      const double step = 2e-2 / std::sqrt(length);
      double loss[2];
      for (const int side : {0, 1}) {
        for (std::size_t i = 0; i < tensor.count(); ++i) {
          weights[tensor.offset + i] = original[tensor.offset + i] +
                                       static_cast<float>(side == 0 ? -step : step) * direction[i];
        }
        loss[side] = fixture.local.forward(batch, false);
      }
      weights = original;
      const double slope = (loss[1] - loss[0]) / (2.0 * step);
      EXPECT_NEAR(slope, expected, 1e-2 * std::abs(expected) + 1e-4 * std::sqrt(length))
          << tensor.name;
    }
  }
}

TEST_P(Models, GradientsAreAddedAndRunsAreIdentical) {
  for (const bool tied : {false, true}) {
    Fixture fixture(small(GetParam(), tied));
    const zero::Batch batch = fixture.batch(2, 9, 4);
    const double loss = fixture.local.forward(batch, true);
    fixture.local.backward();
    const auto once = fixture.local.gradients;
    EXPECT_EQ(fixture.local.forward(batch, true), loss);
    fixture.local.backward();
    for (std::size_t u = 0; u < once.size(); ++u) {
      for (std::size_t i = 0; i < once[u].size(); ++i) {
        EXPECT_NEAR(fixture.local.gradients[u][i], 2.0F * once[u][i],
                    1e-5F * (1.0F + std::abs(once[u][i])));
      }
    }
    fixture.clear_gradients();
    fixture.local.forward(batch, true);
    fixture.local.backward();
    EXPECT_EQ(fixture.local.gradients, once) << "the same batch must give the same bits";
  }
}

/// Values between the tensors of a unit belong to nobody.
TEST_P(Models, AlignmentGapsAreLeftAlone) {
  Fixture fixture(small(GetParam(), false));
  for (auto& unit : fixture.local.gradients) std::fill(unit.begin(), unit.end(), 5.0F);
  fixture.local.forward(fixture.batch(2, 9, 4), true);
  fixture.local.backward();
  std::size_t gaps = 0;
  for (std::size_t u = 0; u < fixture.model.units().size(); ++u) {
    std::vector<bool> used(fixture.model.units()[u].count, false);
    for (const zero::Tensor& tensor : fixture.model.units()[u].tensors) {
      for (std::size_t i = 0; i < tensor.count(); ++i) used[tensor.offset + i] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      ++gaps;
      EXPECT_EQ(fixture.local.gradients[u][i], 5.0F);
    }
  }
  EXPECT_GT(gaps, 0U);
}

/// A gradient that is written has the bits of one that is added to zeros: in whatever memory, with
/// a table that two layers share, and with nothing written between tensors.
TEST_P(Models, FreshGradientsAreWritten) {
  for (const bool tied : {false, true}) {
    Fixture fixture(small(GetParam(), tied));
    const zero::Batch batch = fixture.batch(2, 9, 4);
    fixture.local.forward(batch, true);
    fixture.local.backward();
    const auto added = fixture.local.gradients;
    for (auto& unit : fixture.local.gradients) unit = test::poisoned(unit.size());
    fixture.local.forward(batch, true);
    fixture.local.backward(true);
    for (std::size_t u = 0; u < added.size(); ++u) {
      const zero::Unit& unit = fixture.model.units()[u];
      test::Floats expected = test::poisoned(unit.count);
      for (const zero::Tensor& tensor : unit.tensors) {
        const auto from = added[u].begin() + static_cast<std::ptrdiff_t>(tensor.offset);
        std::copy_n(from, tensor.count(),
                    expected.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
      }
      test::expect_same_bits(fixture.local.gradients[u], expected, unit.name);
    }
  }
}

/// Smaller batches and evaluations in between do not change later results.
TEST_P(Models, ActivationsAreReused) {
  Fixture fixture(small(GetParam(), true), 3);
  const zero::Batch small_batch = fixture.batch(1, 5, 5);
  const double alone = fixture.local.forward(small_batch, true);
  fixture.local.backward();
  const auto expected = fixture.local.gradients;

  Fixture other(small(GetParam(), true), 3);
  other.local.forward(other.batch(3, 9, 6), true);
  other.local.backward();
  other.clear_gradients();
  const zero::Batch same = other.batch(1, 5, 5);
  EXPECT_EQ(other.local.forward(same, false), alone) << "an evaluation computes the same loss";
  EXPECT_EQ(other.local.forward(same, true), alone);
  other.local.backward();
  EXPECT_EQ(other.local.gradients, expected);
}

/// Loss and gradients with and without recomputation, over several micro-batches of other sizes
/// with an evaluation in between; and the memory that it saves, of all blocks or of some.
TEST_P(Models, RecomputingChangesNoBit) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const bool tied : {false, true}) {
      for (const auto& [layers, interval, sharing] : {std::array<std::size_t, 3>{1, 1, 1},
                                                      {2, 1, 2},
                                                      {5, 1, 5},
                                                      {5, 2, 3},
                                                      {5, 3, 2},
                                                      {5, 9, 1}}) {
        SCOPED_TRACE(std::to_string(layers) + " blocks in " + std::string(name_of(compute)));
        Options options = small(GetParam(), tied);
        options.num_layers = layers;
        Fixture kept(options, 2, 13, compute);
        options.recompute_activations = true;
        options.recompute_interval = interval;
        Fixture recomputed(options, 2, 13, compute);
        for (const std::size_t length : {9U, 4U}) {
          const double loss = kept.local.forward(kept.batch(2, length, length), true);
          kept.local.backward(length == 9);
          (void)recomputed.local.forward(recomputed.batch(1, 7, 8), false);
          const zero::Batch same = recomputed.batch(2, length, length);
          EXPECT_EQ(recomputed.local.forward(same, true), loss);
          recomputed.local.backward(length == 9);
          for (std::size_t u = 0; u < kept.local.gradients.size(); ++u) {
            test::expect_same_bits(recomputed.local.gradients[u], kept.local.gradients[u],
                                   kept.model.units()[u].name);
          }
        }
        const zero::MemoryReport all = kept.model.memory();
        const zero::MemoryReport less = recomputed.model.memory();
        EXPECT_EQ(all.actual, all.predicted);
        EXPECT_EQ(less.actual, less.predicted);
        // Each of the other blocks keeps of fp32, in multiples of 256 bytes: four matrices [18,
        // 24], six squares [9, 9], and of GPT one [18, 72], two [18, 96] and four columns [18], of
        // Llama one [18, 40], one [18, 80], one [18, 40] and two columns.
        const std::size_t both = 4 * 1792 + 2048;
        const std::size_t block = std::string(GetParam()) == "gpt"
                                      ? both + 5376 + 2 * 6912 + 4 * 256
                                      : both + 3072 + 5888 + 3072 + 2 * 256;
        EXPECT_EQ(all.actual - less.actual, (sharing - 1) * block);
        EXPECT_EQ(recomputed.model.hardware_flops_per_token() > kept.model.flops_per_token(),
                  sharing > 1);
      }
    }
  }
}

/// No bit changes where the inputs of blocks that recompute lie on the host until backward, but for
/// two, and where copies are done when they are waited for.
TEST_P(Models, InputsOnTheHostChangeNoBit) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const auto& [layers, interval, away] : {std::array<std::size_t, 3>{2, 1, 0},
                                                 {3, 1, 1},
                                                 {6, 1, 4},
                                                 {6, 2, 1},
                                                 {7, 2, 2},
                                                 {6, 9, 0}}) {
      SCOPED_TRACE(std::to_string(layers) + " blocks in " + std::string(name_of(compute)));
      Options options = small(GetParam(), true);
      options.num_layers = layers;
      options.recompute_activations = true;
      options.recompute_interval = interval;
      Fixture there(options, 2, 13, compute);
      options.cpu_checkpointing = true;
      Fixture on_host(options, 2, 13, compute, test::LateRuntime::device("kept inputs"));
      for (const std::size_t length : {9U, 4U, 9U}) {
        const double loss = there.local.forward(there.batch(2, length, length), true);
        there.local.backward(length == 9);
        (void)on_host.local.forward(on_host.batch(1, 7, 8), false);
        EXPECT_EQ(on_host.local.forward(on_host.batch(2, length, length), true), loss);
        on_host.local.backward(length == 9);
        for (std::size_t u = 0; u < there.local.gradients.size(); ++u) {
          test::expect_same_bits(on_host.local.gradients[u], there.local.gradients[u],
                                 there.model.units()[u].name);
        }
      }
      // Inputs are matrices [18, 24] of fp32, in multiples of 256 bytes.
      const zero::MemoryReport device = on_host.model.memory();
      EXPECT_EQ(device.actual, device.predicted);
      EXPECT_EQ(there.model.memory().actual - device.actual, away * 1792);
      EXPECT_TRUE(there.model.offloaded_memory().empty());
      std::size_t bytes = 0;
      for (const zero::MemoryReport& report : on_host.model.offloaded_memory()) {
        EXPECT_EQ(report.actual, report.predicted);
        bytes += report.actual;
      }
      EXPECT_EQ(bytes, away * 1792);
    }
  }
}

TEST_P(Models, NarrowWeightsAreReadExactly) {
  for (const Dtype compute : {Dtype::bf16, Dtype::fp16}) {
    Fixture narrow(small(GetParam(), true), 2, 13, compute);
    Fixture wide(small(GetParam(), true), 2, 13, Dtype::fp32);
    for (auto& unit : wide.local.masters) unit = test::loaded(test::stored(unit, compute), compute);
    const double loss = narrow.local.forward(narrow.batch(2, 9, 9), true);
    narrow.local.backward();
    EXPECT_EQ(wide.local.forward(wide.batch(2, 9, 9), true), loss);
    wide.local.backward();
    EXPECT_EQ(wide.local.gradients, narrow.local.gradients);
  }
}

/// A power of two: every gradient is that many times as large, to the last bit, and the loss is
/// not.
TEST_P(Models, GradientsAreThoseOfTheScaledLoss) {
  Fixture plain(small(GetParam(), false));
  Fixture scaled(small(GetParam(), false));
  const double loss = plain.local.forward(plain.batch(2, 9, 9), true);
  plain.local.backward();
  zero::Batch batch = scaled.batch(2, 9, 9);
  batch.loss_scale = 4096.0F;
  EXPECT_EQ(scaled.local.forward(batch, true), loss);
  scaled.local.backward();
  for (std::size_t u = 0; u < plain.local.gradients.size(); ++u) {
    for (float& value : plain.local.gradients[u]) value *= batch.loss_scale;
    test::expect_same_bits(scaled.local.gradients[u], plain.local.gradients[u],
                           plain.model.units()[u].name);
  }
}

TEST_P(Models, NanInAWeightReachesTheLoss) {
  Fixture fixture(small(GetParam(), true));
  fixture.local.masters[1][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(fixture.local.forward(fixture.batch(2, 9, 1), true)));
}

TEST_P(Models, TimersSeparateProducts) {
  Fixture fixture(small(GetParam(), true));
  const zero::Batch batch = fixture.batch(2, 9, 1);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    fixture.local.forward(batch, true);
    fixture.local.backward();
  }
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double matmul = fixture.timers.seconds(Category::matmul);
  const double rest = fixture.timers.seconds(Category::nn);
  EXPECT_GT(matmul, 0.0);
  EXPECT_GT(rest, 0.0);
  EXPECT_LE(matmul + rest, wall);
  EXPECT_EQ(fixture.timers.seconds(Category::other), 0.0);
}

/// A host table whose operations count their calls and note the streams that they are given.
template <auto Operation>
struct Noted;
template <class Result, class... Arguments,
          Result (*nn::NnOps::*Operation)(const nn::NnContext&, Arguments...)>
struct Noted<Operation> {
  static inline std::set<void*> streams;
  static inline int calls = 0;
  static Result call(const nn::NnContext& context, Arguments... arguments) {
    streams.insert(context.stream.native);
    ++calls;
    return (nn::host_nn_ops().*Operation)(context, arguments...);
  }
};

template <auto... Operations>
struct NotedOps {
  static nn::NnOps table() {
    nn::NnOps ops = nn::host_nn_ops();
    ((ops.*Operations = Noted<Operations>::call), ...);
    return ops;
  }
  static std::vector<std::set<void*>> streams() { return {Noted<Operations>::streams...}; }
  static std::vector<int> calls() { return {Noted<Operations>::calls...}; }
};

TEST(Streams, EveryOperationRunsOnTheGivenOne) {
  using Ops = nn::NnOps;
  using AllOps = NotedOps<&Ops::embedding_forward, &Ops::embedding_backward, &Ops::norm_forward,
                          &Ops::norm_backward, &Ops::linear_forward, &Ops::linear_backward,
                          &Ops::linear_gelu_forward, &Ops::swiglu_forward, &Ops::swiglu_backward,
                          &Ops::rotary, &Ops::attention_forward, &Ops::attention_backward,
                          &Ops::cross_entropy, &Ops::add_mean, &Ops::take_total>;
  const Ops ops = AllOps::table();
  ComputeDevice device = Device::host();
  device.nn = &ops;
  int mark = 0;
  for (const char* name : {"gpt", "llama"}) {
    trace::Timers timers;
    Transformer model(small(name, true),
                      {.micro_batch = 2, .vocab_size = 13, .device = device, .timers = timers});
    test::LocalModel local(model);
    local.initialise(7);
    local.stream.native = &mark;
    const auto tokens = test::tokens(18, 13, 1);
    local.forward({2, 9, tokens, tokens}, true);
    local.backward();
  }
  for (const std::set<void*>& streams : AllOps::streams()) {
    EXPECT_EQ(streams, std::set<void*>{&mark});
  }
}

/// Nothing is run again that backward does not read: of the last block nothing, of the others all
/// but their last product.
TEST_P(Models, RecomputesWhatIsNotThere) {
  using Ops = nn::NnOps;
  const auto calls_of = [](bool recompute) -> std::vector<int> {
    NotedOps<&Ops::norm_forward, &Ops::linear_forward, &Ops::linear_gelu_forward,
             &Ops::attention_forward, &Ops::swiglu_forward>
        noted;
    const Ops ops = noted.table();
    const auto before = noted.calls();
    ComputeDevice device = Device::host();
    device.nn = &ops;
    trace::Timers timers;
    Options options = small(GetParam(), true);
    options.num_layers = 4;
    options.recompute_activations = recompute;
    Transformer model(options,
                      {.micro_batch = 2, .vocab_size = 13, .device = device, .timers = timers});
    test::LocalModel local(model);
    local.initialise(7);
    const auto tokens = test::tokens(18, 13, 1);
    local.forward({2, 9, tokens, tokens}, true);
    local.backward(true);
    std::vector<int> calls = noted.calls();
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] -= before[i];
    return calls;
  };
  // Four blocks, and the head's normalisation and product; three blocks again.
  if (std::string(GetParam()) == "gpt") {
    EXPECT_EQ(calls_of(false), (std::vector<int>{4 * 2 + 1, 4 * 3 + 1, 4, 4, 0}));
    EXPECT_EQ(calls_of(true), (std::vector<int>{7 * 2 + 1, 4 * 3 + 1 + 3 * 2, 7, 7, 0}));
  } else {
    EXPECT_EQ(calls_of(false), (std::vector<int>{4 * 2 + 1, 4 * 4 + 1, 0, 4, 4}));
    EXPECT_EQ(calls_of(true), (std::vector<int>{7 * 2 + 1, 4 * 4 + 1 + 3 * 3, 0, 7, 7}));
  }
}

TEST(Flops, OfAGpt) {
  Options options = small("gpt", true);
  options.num_layers = 3;
  options.recompute_activations = true;
  const Fixture recomputed(options);
  EXPECT_DOUBLE_EQ(recomputed.model.hardware_flops_per_token(),
                   recomputed.model.flops_per_token() + 2 * (16.0 * 24 * 24 + 4.0 * 9 * 24));
  options.ffn_hidden_size = 50;
  const Fixture narrow(options);
  EXPECT_DOUBLE_EQ(narrow.model.flops_per_token(),
                   6.0 * (3 * (4 * 24 * 24 + 2 * 24 * 50) + 13 * 24) + 12.0 * 3 * 9 * 24);
  EXPECT_DOUBLE_EQ(narrow.model.hardware_flops_per_token() - narrow.model.flops_per_token(),
                   2 * (8.0 * 24 * 24 + 2.0 * 24 * 50 + 4.0 * 9 * 24));
  const Fixture fixture(small("gpt", true));
  EXPECT_EQ(fixture.model.hardware_flops_per_token(), fixture.model.flops_per_token());
  EXPECT_DOUBLE_EQ(fixture.model.flops_per_token(),
                   6.0 * (2 * 12 * 24 * 24 + 13 * 24) + 12.0 * 2 * 9 * 24);
}

/// Six heads of ten columns that read two of keys, beside an MLP of 40.
TEST(Flops, OfALlama) {
  Options options = small("llama", true, 6);
  options.num_layers = 3;
  options.num_key_value_heads = 2;
  options.head_dim = 10;
  options.recompute_activations = true;
  const Fixture fixture(options);
  const double attention = 24 * (60 + 20 + 20) + 60 * 24;
  EXPECT_DOUBLE_EQ(fixture.model.flops_per_token(),
                   6.0 * (3 * (attention + 3 * 24 * 40) + 13 * 24) + 12.0 * 3 * 9 * 60);
  EXPECT_DOUBLE_EQ(fixture.model.hardware_flops_per_token() - fixture.model.flops_per_token(),
                   2 * (2 * (attention + 2 * 24 * 40) + 4.0 * 9 * 60));
}

TEST(Widths, AreLlamas) {
  Options options;
  options.name = "llama";
  for (const auto& [hidden, ffn] :
       {std::pair{4096, 11008}, {5120, 13824}, {6656, 17920}, {8192, 22016}, {64, 256}}) {
    options.hidden_size = static_cast<std::size_t>(hidden);
    EXPECT_EQ(ffn_width(options), static_cast<std::size_t>(ffn));
  }
}

TEST_P(Models, RefusesBatchesThatDoNotFit) {
  Fixture fixture(small(GetParam(), true));
  const auto code_of = [&](const zero::Batch& batch) {
    try {
      fixture.model.begin(batch, true, {});
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::ok;
  };
  EXPECT_EQ(code_of(fixture.batch(3, 9, 1)), ExitCode::usage);
  EXPECT_EQ(code_of(fixture.batch(2, 10, 1)), ExitCode::usage);
  EXPECT_EQ(code_of(fixture.batch(0, 9, 1)), ExitCode::usage);
  const zero::Batch whole = fixture.batch(2, 9, 1);
  EXPECT_EQ(code_of({2, 9, whole.tokens, whole.targets.first(3)}), ExitCode::usage);
  fixture.tokens[4] = 13;
  EXPECT_EQ(code_of(whole), ExitCode::usage);
  fixture.tokens[4] = -1;
  EXPECT_EQ(code_of(whole), ExitCode::usage);
  fixture.tokens[4] = 12;
  EXPECT_EQ(code_of(whole), ExitCode::ok);
}

}  // namespace
}  // namespace zeropp::model
