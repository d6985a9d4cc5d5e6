#include "apps/fabric/options.hpp"

#include "lib/config/back_end_choice.hpp"

namespace zeropp::fabric {

std::vector<config::Option> option_table(Options& o) {
  using config::at_least;
  using config::between;
  std::vector<config::Option> table{
      {.path = "node_size",
       .flag = "--node-size",
       .field = &o.node_size,
       .help = "Ranks a node, declared (emulated); 0: nodes as they are",
       .range = between(0, 1e6)},
      {.path = "backend",
       .flag = "--backend",
       .field = &o.backend,
       .help = "Whose memory and kernels",
       .choices = {"auto", "host", "cuda"}},
      {.path = "transport",
       .flag = "--transport",
       .field = &o.transport,
       .help = "What moves the bytes",
       .choices = {"auto", "mpi", "nccl"}},
      {.path = "rail_lanes",
       .flag = "--rail-lanes",
       .field = &o.rail_lanes,
       .help = "NCCL communicators that carry what a rail sends, or nodes of one rank; 0: by the "
               "network",
       .range = between(0, 16)},
      {.path = "gpu_sampling",
       .flag = "--gpu-sampling",
       .field = &o.gpu_sampling,
       .help = "Between readings of clocks, power, temperature and throttle reasons of each rank's "
               "GPU, for the trace; 0: none",
       .unit = "seconds",
       .range = between(0, 3600),
       .in_effect = [&o] { return o.backend != "host"; },
       .effect_needs = "--backend cuda"},
      {.path = "fabric_bytes",
       .flag = "--fabric-bytes",
       .field = &o.message_bytes,
       .help = "Message for bandwidths; 0: 32M of GPU memory, 1M of host memory",
       .unit = "bytes",
       .range = at_least(0),
       .binary_suffix = true},
      {.path = "fabric_threshold",
       .flag = "--fabric-threshold",
       .field = &o.threshold,
       .help = "How much longer than typical a message may take, as a share; noise of the class "
               "and of repeated messages allows more",
       .range = {.minimum = 0, .maximum = 1000, .minimum_excluded = true}},
      {.path = "fabric_seconds",
       .flag = "--fabric-seconds",
       .field = &o.seconds,
       .help = "No new round of pairs begins after it, and the output says how many are missing; "
               "0: no limit",
       .unit = "seconds",
       .range = at_least(0)},
  };
  if (o.for_sweep) {
    table.push_back({.path = "fabric",
                     .flag = "--fabric",
                     .field = &o.for_sweep,
                     .help = "Makes this zpp_fabric, a program of its own"});
  }
  return table;
}

void resolve(Options& o, const std::vector<config::Option>& given, const config::Machine& machine) {
  config::check_effects(given);
  config::choose_back_end(o.backend, o.transport, machine, "--transport");
  config::choose_rail_lanes(o.rail_lanes, o.transport, machine);
  config::check_effects(given);  // again: `auto` may have become a back end that leaves some idle
  // Long beside what it takes to start one: links of GPUs are faster than hosts' copies.
  if (o.message_bytes == 0) o.message_bytes = std::size_t{o.backend == "cuda" ? 32U : 1U} << 20U;
}

}  // namespace zeropp::fabric
