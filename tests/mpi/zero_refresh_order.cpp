// ctest: name=zero_refresh_order np=1,4 timeout=120 labels=sanitize
// Whole weights that are gathered after an update arrive beside the next layers: each layer's
// forward waits for its own units' and for no later ones, and what reads weights from outside of a
// step waits for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/engine_case.hpp"
#include "tests/support/stream_positions.hpp"
#include "tests/support/wrapped_model.hpp"

namespace zeropp::test {
namespace {

/// Refreshes that the compute stream waits for: each sets a mark before and one after it on the
/// stream that it ends on, and is done before the second.
std::size_t refreshes_waited_for(StreamHandle compute) {
  return (StreamPositions::waited(compute, "gather end") + 1) / 2;
}

class WatchedForward final : public WrappedModel {
 public:
  using WrappedModel::WrappedModel;

  void forward(std::size_t layer, std::span<const ConstView> weights,
               StreamHandle stream) override {
    waited_for.push_back(refreshes_waited_for(stream));
    compute = stream;
    WrappedModel::forward(layer, weights, stream);
  }

  std::vector<std::size_t> waited_for;  ///< by layer, of all steps
  StreamHandle compute;
};

struct RefreshCase {
  int stage;
  bool overlap;
  bool quantized;
};

class RefreshOrder : public testing::TestWithParam<RefreshCase> {};

TEST_P(RefreshOrder, LayersWaitForTheirOwnUnits) {
  const RefreshCase given = GetParam();
  zero::Options options;
  options.stage = given.stage;
  options.overlap_comm = given.overlap;
  options.quantized_weights = given.quantized;
  options.persistence_threshold = 1'000'000'000;  // all units, at stage 3
  options.accumulation_steps = 2;
  WatchedForward* model = nullptr;
  EngineCase watched(
      options, 0,
      [&](const model::Context& context) {
        auto made = std::make_unique<WatchedForward>(make_tiny_gpt(context));
        model = made.get();
        return made;
      },
      kLength, kSequences, {.learning_rate = 2e-3}, StreamPositions::device());
  const std::size_t units = model->units().size();
  const std::vector<zero::Layer>& layers = model->layers();
  constexpr std::size_t kSteps = 3;
  for (std::size_t step = 0; step < kSteps; ++step) {
    model->waited_for.clear();
    (void)watched.step(step);
    ASSERT_EQ(model->waited_for.size(), options.accumulation_steps * layers.size());
    std::size_t own = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      own = std::max(own, *std::ranges::max_element(layers[layer].units) + 1);
      // The weights that the first step finds were gathered before it: one refresh of each unit.
      EXPECT_EQ(model->waited_for[layer], step * units + (given.overlap ? own : units))
          << "step " << step << ", layer " << layers[layer].name;
    }
    EXPECT_EQ(model->waited_for.back(), (step + 1) * units) << "the last micro-step";
  }
  EXPECT_EQ(refreshes_waited_for(model->compute), (kSteps + (given.overlap ? 0 : 1)) * units);
  (void)watched.engine().update_times();
  EXPECT_EQ(refreshes_waited_for(model->compute), (kSteps + 1) * units);
}

INSTANTIATE_TEST_SUITE_P(Stages, RefreshOrder,
                         testing::Values(RefreshCase{1, true, false}, RefreshCase{2, true, true},
                                         RefreshCase{3, true, false}, RefreshCase{3, true, true},
                                         RefreshCase{2, false, true}, RefreshCase{3, false, true}));

}  // namespace
}  // namespace zeropp::test
