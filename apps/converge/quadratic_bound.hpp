// The level quadratic: follows a training run of the quadratic, and after every step compares the
// distance between its weights and the closed-form trajectory with the bound of envelope.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/converge/envelope.hpp"
#include "apps/converge/run_record.hpp"
#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"
#include "lib/data/sampler.hpp"
#include "lib/model/quadratic.hpp"
#include "lib/zero/engine/engine.hpp"

namespace zeropp::converge {

/// Throws Error(usage), with the key, unless the run is what envelope.hpp describes: the quadratic
/// in fp32 under plain SGD, one micro-step a step, no clipping, codecs on at most two hops.
void require_plain_descent(const config::TrainConfig& config);

/// Descent that a run of `config` makes, and how it is spread over the ranks of `topology`.
Descent describe_descent(const config::TrainConfig& config, const comm::Topology& topology,
                         const model::Quadratic& model);

class QuadraticBound {
 public:
  /// `rows`: about how many distances are kept. The sampler outlives this.
  QuadraticBound(const config::TrainConfig& config, const comm::Topology& topology,
                 const data::Sampler& sampler, std::size_t vocab_size, std::size_t rows);

  /// Takes the weights before the first step. Collective.
  void begin(const zero::Engine& engine);
  /// Compares the weights with the closed form after step number `done`. Collective; rank 0 looks.
  void stepped(std::uint64_t done, const zero::Engine& engine);

  /// Summary of the distances, on rank 0.
  [[nodiscard]] const DistanceSummary& summary() const { return summary_; }

 private:
  /// All parameters in order, on rank 0.
  [[nodiscard]] std::vector<float> weights_of(const zero::Engine& engine) const;
  [[nodiscard]] double distance(std::span<const float> weights) const;

  std::vector<std::size_t> unit_sizes_;
  std::size_t ranks_;
  double step_size_;
  std::uint64_t interval_;  ///< steps between kept distances
  const data::Sampler& sampler_;
  trace::Timers timers_;  ///< of the model below, which only answers questions
  model::Quadratic model_;
  Envelope envelope_;
  std::vector<float> weights_;  ///< that the next step begins from
  std::vector<double> closed_;  ///< the exact trajectory
  DistanceSummary summary_;
};

}  // namespace zeropp::converge
