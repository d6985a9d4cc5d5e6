#include "apps/fabric/options.hpp"

#include "lib/config/back_end.hpp"
#include "lib/config/effects.hpp"

namespace zeropp::fabric {

std::vector<config::Option> option_table(Options& o) {
  using config::at_least;
  return {
      config::node_size_option(o.node_size),
      config::backend_option(o.backend),
      config::transport_option(o.transport),
      config::rail_lanes_option(o.rail_lanes),
      config::gpu_sampling_option(o.gpu_sampling, o.backend),
      {.path = "fabric_bytes",
       .flag = "--fabric-bytes",
       .field = &o.message_bytes,
       .help = "Size of a message for bandwidths; 0: 32M of GPU memory, 1M of host memory",
       .unit = "bytes",
       .range = at_least(0),
       .binary_suffix = true},
      {.path = "fabric_pairs",
       .flag = "--fabric-pairs",
       .field = &o.pairs,
       .help =
           "Measure a pair of ranks by messages, or by all-reduces of the two, which NCCL may send "
           "on other paths"},
      {.path = "fabric_threshold",
       .flag = "--fabric-threshold",
       .field = &o.threshold,
       .help = "Share by which a message may take longer than is typical; noise of the class and "
               "of repeated messages allows more",
       .range = {.minimum = 0, .maximum = 1000, .minimum_excluded = true}},
      {.path = "fabric_seconds",
       .flag = "--fabric-seconds",
       .field = &o.seconds,
       .help = "Time after which no new round of pairs begins; the output names missing pairs, and "
               "the exit code is 4; 0: no limit",
       .unit = "seconds",
       .range = at_least(0)},
      {.path = "good_hosts",
       .flag = "--good-hosts",
       .field = &o.good_hosts,
       .help = "File that gets the largest set of hosts without a slow link among them, one a "
               "line; the output has the command that drains each other host"},
  };
}

void resolve(Options& o, const std::vector<config::Option>& given, const config::Machine& machine) {
  config::check_effects(given);
  config::choose_back_end(o.backend, o.transport, machine, "--transport");
  config::choose_rail_lanes(o.rail_lanes, *o.transport, machine);
  config::check_effects(given);  // again: `auto` may have become a back end that leaves some idle
  // Long beside what it takes to start one: links of GPUs are faster than hosts' copies.
  if (o.message_bytes == 0)
    o.message_bytes = std::size_t{o.backend == Backend::cuda ? 32U : 1U} << 20U;
}

}  // namespace zeropp::fabric
