// Engines for tests: a model, its options and a data source, put together in one place.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/app/registries.hpp"
#include "lib/comm/world.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/sampler.hpp"
#include "lib/data/token_source.hpp"
#include "lib/device/device.hpp"
#include "lib/model/registry.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/engine/engine.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/on_device.hpp"

namespace zeropp::test {

/// Shape of a micro-batch unless a test asks for another.
inline constexpr std::size_t kLength = 16;  ///< tokens
inline constexpr std::size_t kSequences = 2;

/// Outcome of a run.
struct Outcome {
  std::string hash;
  std::vector<double> losses;
  std::vector<double> norms;
  std::uint64_t skipped = 0;
  std::uint64_t secondary_gathers = 0;
  comm::Bytes sent;       ///< of this rank, all steps
  comm::Bytes predicted;  ///< of this rank, all steps
  std::uint64_t backward_inter =
      0;  ///< bytes of weight gathers in backward across nodes, this rank
};

/// Ranks per node: two nodes if there are four ranks, else one node.
inline int node_size_of_four() { return world().size() == 4 ? 2 : world().size(); }

using KeptErrors = std::map<std::string, std::vector<std::byte>>;

/// The built-in source, made once: it takes longer than a step of a small model.
inline const data::TokenSource& token_source() {
  static const auto source = data::make_source({});
  return *source;
}

/// One engine on the current world with `node_size` declared ranks per node.
class EngineCase {
 public:
  using MakeModel = std::function<std::unique_ptr<zero::UnitModel>(const model::Context&)>;

  EngineCase(zero::Options options, int node_size, const MakeModel& make,
             std::size_t seq_length = kLength, std::size_t micro_batch = kSequences,
             optim::Options optimizer = {.learning_rate = 2e-3, .weight_decay = 0.1},
             const Device& on = device())
      : options_(std::move(options)),
        optimizer_(std::move(optimizer)),
        device_(on),
        sampler_(token_source(), options_.seed, seq_length, micro_batch) {
    options_.shard_multiple = optim::moment_alignment(optimizer_.moments);
    config::TrainConfig config;
    config.zero = options_;
    config.bf16 = options_.compute != Dtype::fp32;  // tests of fp16 go beyond what it allows
    config::resolve(config, {}, app::machine_of(world().set_topology(node_size)));
    options_.all_gather_algorithm = config.zero.all_gather_algorithm;
    options_.reduce_scatter_algorithm = config.zero.reduce_scatter_algorithm;
    options_.secondary_gather_algorithm = config.zero.secondary_gather_algorithm;
    options_.shard_group_size = config.zero.shard_group_size;
    const std::size_t h = options_.hpz_partition_size;
    const int shards = static_cast<int>(options_.shard_group_size);
    groups_ = &kept_groups(node_size,
                           {.secondary_size = options_.has_secondary() ? static_cast<int>(h) : 0,
                            .shard_size = shards});
    model_ = make({.micro_batch = micro_batch,
                   .vocab_size = token_source().vocab_size(),
                   .device = device_,
                   .compute = options_.compute,
                   .deterministic = options_.deterministic,
                   .timers = recorder_.timers});
    const zero::EngineGroups groups{*groups_, kept_groups(node_size, {.shard_size = shards}, 1),
                                    world().control()};
    engine_ =
        std::make_unique<zero::Engine>(options_, optimizer_, *model_, groups, device_, recorder_);
  }

  /// Takes one step on the batches of step `index`, and checks that it takes no device memory.
  zero::StepResult step(std::uint64_t index) {
    const std::size_t allocations = device_.runtime->memory_use().allocations;
    const auto result = engine_->step([&](std::size_t micro_step) {
      sampler_.train(index, micro_step, place(), batch_);
      return zero::Batch{batch_.sequences, batch_.length, batch_.tokens, batch_.targets};
    });
    EXPECT_EQ(result.sent, result.predicted) << "step " << index;
    EXPECT_EQ(device_.runtime->memory_use().allocations, allocations) << "step " << index;
    return result;
  }

  /// The norm of the mean gradient of a step whose micro-steps all see the first batch.
  double norm_of_one_batch() {
    sampler_.train(0, 0, place(), batch_);
    return engine_
        ->step([&](std::size_t) {
          return zero::Batch{batch_.sequences, batch_.length, batch_.tokens, batch_.targets};
        })
        .grad_norm;
  }

  Outcome train(std::uint64_t steps, std::uint64_t evaluate_every = 0) {
    Outcome outcome;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto result = this->step(step);
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.grad_norm);
      outcome.skipped += result.skipped ? 1 : 0;
      outcome.sent += result.sent;
      outcome.predicted += result.predicted;
      if (evaluate_every > 0 && (step + 1) % evaluate_every == 0) {
        data::TokenBatch held_out;
        sampler_.held_out(0, place(), held_out);
        EXPECT_TRUE(std::isfinite(engine_->evaluate(
            {held_out.sequences, held_out.length, held_out.tokens, held_out.targets})));
      }
    }
    outcome.hash = engine_->parameters_hash();
    outcome.secondary_gathers = recorder_.counters["secondary_gathers"];
    for (const trace::CollectiveRow& row : recorder_.collectives) {
      if (row.phase == "backward" && row.operation == "all_gather")
        outcome.backward_inter += row.wire_bytes_inter;
    }
    return outcome;
  }

  /// Errors that error feedback keeps of all hops and buckets, by name.
  KeptErrors errors() {
    KeptErrors all;
    for (const zero::NamedState& state : engine_->error_feedback()) {
      std::vector<std::byte> bytes(state.bytes.size());
      stream().copy(bytes.data(), state.bytes.data(), bytes.size());
      stream().synchronize();
      EXPECT_TRUE(all.emplace(state.name, std::move(bytes)).second) << state.name << " twice";
    }
    return all;
  }

  [[nodiscard]] zero::Engine& engine() { return *engine_; }
  [[nodiscard]] zero::UnitModel& model() { return *model_; }
  [[nodiscard]] trace::Recorder& recorder() { return recorder_; }
  [[nodiscard]] comm::Groups& groups() { return *groups_; }

 private:
  [[nodiscard]] data::DataRank place() const {
    return {static_cast<std::size_t>(groups_->world->rank()),
            static_cast<std::size_t>(groups_->world->size())};
  }

  zero::Options options_;
  optim::Options optimizer_;
  Device device_;
  trace::Recorder recorder_;
  data::Sampler sampler_;
  data::TokenBatch batch_;
  comm::Groups* groups_ = nullptr;
  std::unique_ptr<zero::UnitModel> model_;
  std::unique_ptr<zero::Engine> engine_;
};

/// A transformer of two blocks whose sizes divide nothing.
inline std::unique_ptr<zero::UnitModel> make_tiny(const std::string& name,
                                                  const model::Context& context, bool tied = true) {
  model::Options options;
  options.name = name;
  options.num_layers = 2;
  options.hidden_size = 24;
  options.num_attention_heads = 3;
  if (name == "llama") options.num_key_value_heads = 1;
  options.seq_length = kLength;
  options.tied_head = tied;
  return model::make_model(options, context);
}
inline std::unique_ptr<zero::UnitModel> make_tiny_gpt(const model::Context& context) {
  return make_tiny("gpt", context);
}

}  // namespace zeropp::test
