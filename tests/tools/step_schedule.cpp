// Prints the schedules of a training step as JSON, for the picture in docs/developers: a GPT of two
// blocks at stage 3 with hpZ, qwZ and qgZ on two nodes of two ranks, one micro-step, as the engine
// plans it:
//   {layers, units: [{name, weights, gradients}], buckets: [[unit]], arena_bytes, gradients: [OP],
//    update: [OP]}
// OP: {kind, index, stream, ends_on, bytes, result, workspace, waits_on}. Bytes and offsets are of
// the arena; null: none.
#include <iostream>
#include <nlohmann/json.hpp>

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace {

using namespace zeropp;
using nlohmann::json;

config::TrainConfig small_run() {
  config::TrainConfig config;
  config.model = {.name = "gpt",
                  .num_layers = 2,
                  .hidden_size = 64,
                  .num_attention_heads = 4,
                  .seq_length = 64,
                  .vocab_size = 512};
  config.bf16 = true;
  config.rail_lanes = 1;
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = 1;
  config.train_batch_size = 4;
  config.zero.stage = 3;
  config.zero.compute = Dtype::bf16;
  config.zero.quantized_weights = true;
  config.zero.quantized_gradients = true;
  config.zero.hpz_partition_size = 2;
  config.zero.all_gather_algorithm = "two-level";
  config.zero.secondary_gather_algorithm = "native";
  config.zero.reduce_scatter_algorithm = "2-hop";
  config.zero.reduce_bucket_size = 60'000;
  return config;
}

json offset(std::size_t value) { return value == zero::kNoMemory ? json() : json(value); }

json to_json(const zero::Schedule& schedule) {
  json ops = json::array();
  for (const zero::Op& op : schedule.ops) {
    ops.push_back({{"kind", name_of(op.kind)},
                   {"index", op.index},
                   {"stream", name_of(op.stream)},
                   {"ends_on", name_of(ends_on(op.stream))},
                   {"bytes", op.bytes},
                   {"result", offset(op.result)},
                   {"workspace", offset(op.workspace)},
                   {"waits_on", op.waits_on}});
  }
  return ops;
}

}  // namespace

int main() {
  const config::TrainConfig config = small_run();
  const plan::PlannedRun run(config, comm::declared_topology(4, 2), config.model.vocab_size);
  const zero::StepPlan& plan = run.plans().step;
  json layers = json::array();
  for (const zero::Layer& layer : plan.input.layers) layers.push_back(layer.name);
  json units = json::array();
  for (std::size_t u = 0; u < plan.input.units.size(); ++u) {
    units.push_back({{"name", run.model().units[u].name},
                     {"weights", plan.input.unit_memory[u].weights},
                     {"gradients", plan.input.unit_memory[u].gradients}});
  }
  json buckets = json::array();
  for (const zero::Bucket& bucket : plan.input.buckets) {
    json members = json::array();
    for (const zero::Segment& segment : bucket.segments) members.push_back(segment.unit);
    buckets.push_back(members);
  }
  std::cout << json{{"layers", layers},
                    {"units", units},
                    {"buckets", buckets},
                    {"arena_bytes", plan.arena_bytes()},
                    {"gradients", to_json(plan.step.stale)},
                    {"update", to_json(plan.update)}}
                   .dump(1)
            << "\n";
}
