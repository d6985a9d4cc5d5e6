#include "apps/sweep/options.hpp"

#include "lib/config/back_end.hpp"

namespace zeropp::sweep {

std::vector<config::Option> option_table(Options& o) {
  using config::at_least;
  using config::between;
  const auto size = [](const char* path, const char* flag, const char* letter, std::size_t* field,
                       const char* help, double least) {
    return config::Option{.path = path,
                          .flag = flag,
                          .letter = letter,
                          .field = field,
                          .help = help,
                          .unit = "bytes",
                          .range = at_least(least),
                          .binary_suffix = true,
                          .bytes_suffix = true};
  };
  const auto number = [](const char* path, const char* flag, const char* letter, std::size_t* field,
                         const char* help, config::Range range) {
    return config::Option{
        .path = path, .flag = flag, .letter = letter, .field = field, .help = help, .range = range};
  };
  const auto text = [](const char* path, const char* flag, const char* letter, std::string* field,
                       const char* help) {
    return config::Option{
        .path = path, .flag = flag, .letter = letter, .field = field, .help = help};
  };
  return {
      size("minimum_bytes", "--minbytes", "-b", &o.minimum_bytes, "Size to begin with", 0),
      size("maximum_bytes", "--maxbytes", "-e", &o.maximum_bytes, "Size to end at", 0),
      size("step_bytes", "--stepbytes", "-i", &o.step_bytes,
           "Bytes that are added from size to size, where -f is 0 or 1", 0),
      number("step_factor", "--stepfactor", "-f", &o.step_factor,
             "Factor from size to size; 0 or 1: -i is added", at_least(0)),
      number("iterations", "--iters", "-n", &o.iterations,
             "Iterations of a cycle; 0: as many as last a millisecond", at_least(0)),
      number("warmup_iters", "--warmup_iters", "-w", &o.warmup_iterations,
             "Iterations before the timed ones, at every size", at_least(0)),
      number("aggregated_iterations", "--agg_iters", "-m", &o.aggregated_iterations,
             "Operations started together in an iteration", between(1, 1024)),
      number("run_cycles", "--run_cycles", "-N", &o.run_cycles,
             "Cycles, each a sample of the row; 0: 1 with -n, else until the 95 % interval of the "
             "median lies within 1 %, or --max-seconds are over",
             at_least(0)),
      number("validation", "--check", "-c", &o.validation,
             "Runs with other data that are checked beside the timed ones; 0: no checks",
             at_least(0)),
      size("check_maximum_bytes", "--check-maxbytes", "", &o.check_maximum_bytes,
           "Largest size that is checked; larger ones are timed only, for checks are work of the "
           "CPU; 0: all are checked",
           0),
      text("operation", "--op", "-o", &o.operation, "Reduction, which is sum"),
      text("datatype", "--datatype", "-d", &o.datatype,
           "Types of the elements: float, half, bfloat16; several with commas, or all"),
      text("root", "--root", "-r", &o.root, "Root of a broadcast: a rank of the group, or all"),
      number("blocking_collectives", "--blocking", "-z", &o.blocking,
             "Waits of the CPU: 0 none, 1 for each operation, then for the other ranks, 2 for each "
             "operation, 3 for each iteration, with the ranks lined up before it, outside the time",
             between(0, 3)),
      number("graph", "--cudagraph", "-G", &o.graph,
             "Launches of a CUDA graph of a cycle's iterations; 0: no graph", at_least(0)),
      number("average", "--average", "-a", &o.average,
             "Time that is shown: of rank 0 (0), or over ranks the mean (1), the least (2), the "
             "largest (3)",
             between(0, 3)),
      number("report_cputime", "--report_cputime", "-C", &o.report_cputime,
             "Flag of nccl-tests that may say 0 only", between(0, 1)),
      number("per_iter_timing", "--per_iter_timing", "-I", &o.per_iteration_timing,
             "1: time each of the -n (100) iterations alone, and show the column p99",
             between(0, 1)),
      number("per_iter_skip", "--per_iter_skip", "-K", &o.per_iteration_skip,
             "First iterations of -I that are warm-ups and no samples", at_least(0)),
      number("ngpus", "--ngpus", "-g", &o.gpus, "GPUs of a rank: 1", at_least(0)),
      number("nthreads", "--nthreads", "-t", &o.threads, "Threads of a rank: 1", at_least(0)),
      text("collective", "--collective", "", &o.collective,
           "Collectives that are measured; several with commas, or all"),
      text("codec", "--codec", "", &o.codec,
           "Codecs on every hop, FORMAT[:BLOCK]; several with commas"),
      text("algorithm", "--algorithm", "", &o.algorithm,
           "Algorithms; several with commas, all, or auto: without a codec the vendor's too, and "
           "the one that fits the nodes"),
      text("group", "--group", "", &o.group,
           "Groups of ranks: world, node, rail; several with commas"),
      config::node_size_option(o.node_size),
      config::backend_option(o.backend),
      config::transport_option(o.transport),
      config::copy_engines_option(o.copy_engines),
      config::rail_lanes_option(o.rail_lanes),
      number("pipeline_depth", "--pipeline-depth", "", &o.pipeline_depth,
             "Chunks in which a collective is pipelined, so that codecs work while others travel; "
             "1 is none. The vendor's have their own",
             between(1, 1024)),
      number("seed", "--seed", "", &o.seed, "Seed of the data", at_least(0)),
      {.path = "maximum_seconds",
       .flag = "--max-seconds",
       .field = &o.maximum_seconds,
       .help = "Time after which a measurement's cycles end where -n and -N leave their number "
               "free; at least 3 run",
       .unit = "seconds",
       .range = {.minimum = 0, .maximum = 86400, .minimum_excluded = true}},
      {.path = "link_peak",
       .flag = "--link-peak",
       .field = &o.link_peak,
       .help = "Measured peak of a rank's link: a wire bus bandwidth above it makes a row INVALID; "
               "0: unknown",
       .unit = "GB/s",
       .range = at_least(0)},
      config::gpu_sampling_option(o.gpu_sampling, o.backend),
  };
}

const std::vector<config::OptionGroup>& option_groups() {
  static const std::vector<config::OptionGroup> groups{
      {"sizes", "Sizes", "From which size to which.", {"minimum_bytes", "maximum_bytes", "step_"}},
      {"collectives",
       "Collectives",
       "What is measured.",
       {"collective", "codec", "algorithm", "group", "datatype", "operation", "root",
        "pipeline_depth"}},
      {"timing",
       "Timing",
       "How often, and how it is timed.",
       {"iterations", "warmup_", "aggregated_", "run_cycles", "maximum_seconds", "blocking_",
        "graph", "average", "report_", "per_iter_"}},
      {"checks",
       "Checks",
       "What has to hold.",
       {"validation", "check_maximum_", "seed", "link_peak"}},
      {"machine",
       "Machine",
       "What computes, and what moves bytes.",
       {"node_size", "backend", "transport", "copy_engines", "rail_lanes", "gpu_sampling", "ngpus",
        "nthreads"}}};
  return groups;
}

}  // namespace zeropp::sweep
