// ctest: name=contract5_encoder_mean np=1,4 timeout=120 labels=sanitize
// The encoder through the engine. Every sequence has the same number of masked tokens, and the same
// mask wherever it lies. Loss and gradient norm over ranks and micro-steps equal the values of one
// process that reads all sequences as one batch, at every stage. The masked loss falls in 60 steps.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/engine_case.hpp"
#include "tests/support/local_model.hpp"

namespace zeropp::test {
namespace {

std::unique_ptr<zero::UnitModel> encoder(const model::Context& context) {
  return make_tiny("encoder", context);
}

/// Mean over all ranks.
double mean(double value) {
  world().control().all_reduce_sum(std::span<double>(&value, 1));
  return value / world().size();
}

/// Loss and gradient norm of the sequences of step 0 in one batch, on rank 0.
struct OneProcess {
  OneProcess(EngineCase& engine_case, const zero::Options& options) {
    const auto ranks = static_cast<std::size_t>(world().size());
    zero::Batch batch;
    batch.length = kLength;
    const data::Sampler sampler(token_source(), options.seed, kLength, kSequences);
    std::vector<std::int32_t> tokens;
    for (std::size_t m = 0; m < options.accumulation_steps; ++m) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        data::TokenBatch part;
        sampler.train(0, m, {rank, ranks}, part);
        tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
        batch.sequences += part.sequences;
      }
    }
    batch.tokens = batch.targets = tokens;
    trace::Timers timers;
    const Device device = Device::host();
    const auto model = encoder({.micro_batch = batch.sequences,
                                .vocab_size = token_source().vocab_size(),
                                .device = device,
                                .timers = timers});
    LocalModel local(*model);
    for (std::size_t unit = 0; unit < local.masters.size(); ++unit) {
      const auto flat = engine_case.engine().gather_master(unit);
      if (!flat.empty()) local.masters[unit] = flat;
    }
    loss = local.forward(batch, true);
    local.backward(true);
    for (std::size_t unit = 0; unit < local.gradients.size(); ++unit) {
      for (const zero::Tensor& tensor : model->units()[unit].tensors) {
        for (std::size_t i = 0; i < tensor.count(); ++i) {
          norm += std::pow(static_cast<double>(local.gradients[unit][tensor.offset + i]), 2);
        }
      }
    }
    norm = std::sqrt(norm);
  }
  double loss = 0;
  double norm = 0;
};

TEST(Encoder, TheMeanOverRanksIsTheMeanOverMaskedTokens) {
  for (const int stage : {0, 1, 2, 3}) {
    zero::Options options;
    options.stage = stage;
    options.accumulation_steps = 2;
    EngineCase engine_case(options, 0, encoder, kLength, kSequences);
    const OneProcess expected(engine_case, options);
    const zero::StepResult result = engine_case.step(0);
    const double loss = mean(result.loss);
    if (world().control().rank() != 0) continue;
    EXPECT_NEAR(loss / expected.loss, 1.0, 1e-6) << "stage " << stage;
    EXPECT_NEAR(result.grad_norm / expected.norm, 1.0, 1e-5) << "stage " << stage;
  }
}

/// The model sees two batches again and again: what is masked in them can be learned by heart.
TEST(Encoder, LearnsToPredictMaskedTokens) {
  EngineCase engine_case({}, 0, encoder, kLength, 8, {.learning_rate = 1e-2});
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < 60; ++step) {
    losses.push_back(mean(engine_case.step(step % 2).loss));
  }
  const double first = std::accumulate(losses.begin(), losses.begin() + 5, 0.0) / 5;
  const double last = std::accumulate(losses.end() - 5, losses.end(), 0.0) / 5;
  EXPECT_LT(last, 0.5 * first) << "from " << first << " to " << last << " nats";
}

}  // namespace
}  // namespace zeropp::test
