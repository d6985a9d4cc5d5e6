// Engines for tests on the quadratic, whose training is known in closed form.
#pragma once

#include <memory>
#include <vector>

#include "lib/model/quadratic.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/host_model.hpp"

namespace zeropp::test {

/// An engine on a quadratic with units of these sizes, and the quadratic itself: on a GPU the
/// engine sees it through a HostModel.
struct QuadraticCase {
  QuadraticCase(const std::vector<std::size_t>& unit_sizes, const zero::Options& options,
                int node_size, std::size_t seq_length, std::size_t micro_batch,
                const optim::AdamWOptions& optimizer = {.learning_rate = 2e-3, .weight_decay = 0.1})
      : engine_case(
            options, node_size,
            [&](const model::Context& context) {
              auto made = std::make_unique<model::Quadratic>(unit_sizes, context.vocab_size,
                                                             context.timers);
              model = made.get();
              return host_model_on(context.device, std::move(made));
            },
            seq_length, micro_batch, optimizer) {}

  const model::Quadratic* model = nullptr;  ///< the engine's case owns it
  EngineCase engine_case;
};

}  // namespace zeropp::test
