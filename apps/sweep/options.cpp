#include "apps/sweep/options.hpp"

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
                          .binary_suffix = true};
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
      size("step_bytes", "--stepbytes", "-i", &o.step_bytes, "From size to size, added", 1),
      number("step_factor", "--stepfactor", "-f", &o.step_factor,
             "From size to size, multiplied; 1: -i is added", at_least(1)),
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
           "Sizes above it are timed and not checked: checks are work of the CPU; 0: all are "
           "checked",
           0),
      text("operation", "--op", "-o", &o.operation, "Reduction: sum"),
      text("datatype", "--datatype", "-d", &o.datatype,
           "float, half, bfloat16; several with commas, or all"),
      text("root", "--root", "-r", &o.root, "Root of a broadcast: a rank of the group, or all"),
      number("blocking_collectives", "--blocking", "-z", &o.blocking,
             "1: the CPU waits for each operation, then for the other ranks; 2: without the latter",
             between(0, 2)),
      number("graph", "--cudagraph", "-G", &o.graph,
             "A cycle's iterations become a CUDA graph, which is launched so often; 0: no graph",
             at_least(0)),
      number("average", "--average", "-a", &o.average,
             "The time shown is of rank 0 (0), or over ranks the mean (1), the least (2), the "
             "largest (3)",
             between(0, 3)),
      number("report_cputime", "--report_cputime", "-C", &o.report_cputime, "Not offered: 0",
             between(0, 1)),
      number("per_iter_timing", "--per_iter_timing", "-I", &o.per_iteration_timing,
             "Not offered: 0", between(0, 1)),
      number("ngpus", "--ngpus", "-g", &o.gpus, "GPUs of a rank: 1", at_least(0)),
      number("nthreads", "--nthreads", "-t", &o.threads, "Threads of a rank: 1", at_least(0)),
      text("collective", "--collective", "", &o.collective,
           "What is measured; several with commas, or all"),
      text("codec", "--codec", "", &o.codec, "FORMAT[:BLOCK] on every hop; several with commas"),
      text("algorithm", "--algorithm", "", &o.algorithm,
           "Several with commas, all, or auto: without a codec the vendor's too, and the one that "
           "fits the nodes"),
      text("group", "--group", "", &o.group, "world, node, rail; several with commas"),
      number("node_size", "--node-size", "", &o.node_size,
             "Ranks a node, declared (emulated); 0: nodes as they are", between(0, 1e6)),
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
      {.path = "copy_engines",
       .flag = "--copy-engines",
       .field = &o.copy_engines,
       .help = "Large messages of one size to everyone inside a node go by the GPUs' copy engines; "
               "auto: where NCCL can",
       .choices = {"auto", "on", "off"}},
      number("rail_lanes", "--rail-lanes", "", &o.rail_lanes,
             "NCCL communicators that carry what a rail sends, or nodes of one rank; 0: by the "
             "network",
             between(0, 16)),
      number("pipeline_depth", "--pipeline-depth", "", &o.pipeline_depth,
             "Chunks in which a collective is pipelined, so that codecs work while others travel; "
             "1 is none. The vendor's have their own",
             between(1, 1024)),
      number("seed", "--seed", "", &o.seed, "Of the data", at_least(0)),
      {.path = "maximum_seconds",
       .flag = "--max-seconds",
       .field = &o.maximum_seconds,
       .help = "A measurement's cycles end after it where -n and -N leave their number free; at "
               "least 3 run",
       .unit = "seconds",
       .range = {.minimum = 0, .maximum = 86400, .minimum_excluded = true}},
      {.path = "link_peak",
       .flag = "--link-peak",
       .field = &o.link_peak,
       .help = "Measured peak of a rank's link: a wire bus bandwidth above it makes a row INVALID; "
               "0: unknown",
       .unit = "GB/s",
       .range = at_least(0)},
      {.path = "gpu_sampling",
       .flag = "--gpu-sampling",
       .field = &o.gpu_sampling,
       .help = "Between readings of clocks, power, temperature and throttle reasons of each rank's "
               "GPU, for the trace; 0: none",
       .unit = "seconds",
       .range = between(0, 3600),
       .in_effect = [&o] { return o.backend != "host"; },
       .effect_needs = "--backend cuda"},
      {.path = "fabric",
       .flag = "--fabric",
       .field = &o.fabric,
       .help = "Another name of zpp_fabric, with its flags: zpp_fabric --help has them"},
  };
}

}  // namespace zeropp::sweep
