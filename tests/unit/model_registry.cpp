// ctest: name=model_registry labels=sanitize
#include <gmock/gmock.h>

#include "lib/base/error.hpp"
#include "lib/model/registry.hpp"
#include "tests/support/local_model.hpp"

namespace zeropp::model {
namespace {

std::string refusal(const Options& options) {
  try {
    validate(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(Registry, EveryModelLearns) {
  for (const std::string_view name : model_names()) {
    Options options;
    options.name = name;
    trace::Timers timers;
    const Device device = Device::host();
    const auto model = make_model(
        options, {.micro_batch = 1, .vocab_size = 19, .device = device, .timers = timers});
    test::LocalModel local(*model);
    local.initialise(1);
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 12; ++i) tokens.push_back(i % 19);
    const zero::Batch batch{1, 12, tokens, tokens};
    const double before = local.forward(batch, true);
    local.backward();
    for (std::size_t u = 0; u < local.masters.size(); ++u) {
      for (std::size_t i = 0; i < local.masters[u].size(); ++i) {
        local.masters[u][i] -= 0.05F * local.gradients[u][i];
      }
    }
    EXPECT_LT(local.forward(batch, false), before) << name;
    EXPECT_GT(model->flops_per_token(), 0.0) << name;
  }
}

/// Losses are summed over micro-batches, in evaluation as in training, until they are taken.
TEST(Registry, LossesAddUpUntilTaken) {
  for (const std::string_view name : model_names()) {
    Options options;
    options.name = name;
    trace::Timers timers;
    const Device device = Device::host();
    const auto model = make_model(
        options, {.micro_batch = 1, .vocab_size = 19, .device = device, .timers = timers});
    test::LocalModel local(*model);
    local.initialise(1);
    EXPECT_EQ(local.take_loss(), 0.0) << name;
    double sum = 0.0;
    for (std::int32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
      const std::vector<std::int32_t> tokens(5, micro_batch);
      sum += local.forward({1, 5, tokens, tokens}, true);
    }
    for (std::int32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
      const std::vector<std::int32_t> tokens(5, micro_batch);
      local.run_forward({1, 5, tokens, tokens}, micro_batch == 1);
    }
    EXPECT_EQ(local.take_loss(), sum) << name;
    EXPECT_EQ(local.take_loss(), 0.0) << name;
    EXPECT_NE(sum, 0.0) << name;
  }
}

TEST(Registry, RefusalsNameTheRemedy) {
  using testing::HasSubstr;
  Options options;
  EXPECT_EQ(refusal(options), "");
  options.name = "gtp";
  EXPECT_THAT(refusal(options), HasSubstr("'gtp': use one of gpt, llama, quadratic"));
  options = {};
  options.num_attention_heads = 3;
  EXPECT_THAT(refusal(options),
              HasSubstr("hidden_size 64 is not a multiple of zeropp.model.num_attention_heads 3"));
  options.name = "quadratic";
  EXPECT_EQ(refusal(options), "") << "it has no heads";
  for (std::size_t Options::*const size : {&Options::num_layers, &Options::hidden_size,
                                           &Options::num_attention_heads, &Options::seq_length}) {
    options = {};
    options.*size = 0;
    EXPECT_THAT(refusal(options), HasSubstr("is 0: give a positive number"));
  }
}

TEST(Registry, VocabularyOfTheSourceOrLarger) {
  Options options;
  EXPECT_EQ(effective_vocab_size(options, 256), 256U);
  options.vocab_size = 257;
  EXPECT_EQ(effective_vocab_size(options, 256), 257U);
  options.vocab_size = 255;
  EXPECT_THROW((void)effective_vocab_size(options, 256), Error);
}

TEST(Registry, QuadraticIsRefusedOnADevice) {
  Options options;
  options.name = "quadratic";
  trace::Timers timers;
  Device device = Device::host();
  device.memory = MemoryKind::device;
  EXPECT_THROW((void)make_model(options, {.vocab_size = 2, .device = device, .timers = timers}),
               Error);
}

}  // namespace
}  // namespace zeropp::model
