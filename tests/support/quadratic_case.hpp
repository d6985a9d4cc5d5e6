// Engines for tests on the quadratic, whose training is known in closed form.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/model/quadratic.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/host_model.hpp"

namespace zeropp::test {

/// Units of a small quadratic: one value, parts of a block, and several blocks with a rest.
inline const std::vector<std::size_t> kSmallUnits{1, 7, 1009, 300};

/// An engine on a quadratic with units of these sizes, and the quadratic itself: on a GPU the
/// engine sees it through a HostModel.
struct QuadraticCase {
  QuadraticCase(std::vector<std::size_t> unit_sizes_, const zero::Options& options, int node_size,
                std::size_t seq_length, std::size_t micro_batch,
                const optim::Options& optimizer = {.learning_rate = 2e-3, .weight_decay = 0.1})
      : unit_sizes(std::move(unit_sizes_)),
        sampler(token_source(), options.seed, seq_length, micro_batch),
        accumulation_steps(options.accumulation_steps),
        engine_case(
            options, node_size,
            [&](const model::Context& context) {
              auto made = std::make_unique<model::Quadratic>(unit_sizes, context.vocab_size,
                                                             context.timers);
              model = made.get();
              return host_model_on(context.device, std::move(made));
            },
            seq_length, micro_batch, optimizer) {}

  /// The tilt of the mean gradient of a step, over ranks and micro-steps.
  [[nodiscard]] double mean_tilt(std::uint64_t step) const {
    const auto ranks = static_cast<std::size_t>(world().size());
    double tilt = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t m = 0; m < accumulation_steps; ++m) {
        data::TokenBatch batch;
        sampler.train(step, m, {rank, ranks}, batch);
        tilt += model->tilt(batch.targets);
      }
    }
    return tilt / static_cast<double>(ranks * accumulation_steps);
  }

  /// All parameters in order, on rank 0; elsewhere none. Collective.
  [[nodiscard]] std::vector<double> parameters() {
    std::vector<double> all;
    for (std::size_t unit = 0; unit < unit_sizes.size(); ++unit) {
      const std::vector<float> flat = engine_case.engine().gather_master(unit);
      if (flat.empty()) continue;
      all.insert(all.end(), flat.begin(),
                 flat.begin() + static_cast<std::ptrdiff_t>(unit_sizes[unit]));
    }
    return all;
  }

  std::vector<std::size_t> unit_sizes;
  data::Sampler sampler;  ///< gives the batches that the engine's case gets
  std::size_t accumulation_steps;
  const model::Quadratic* model = nullptr;  ///< the engine's case owns it
  EngineCase engine_case;
};

}  // namespace zeropp::test
