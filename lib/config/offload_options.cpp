#include "lib/config/offload_options.hpp"

#include <functional>
#include <tuple>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

/// Need of one group of options for a device.
struct Needs {
  std::function<bool()> met;
  const char* what;

  Option operator()(Option option) const {
    option.in_effect = met;
    option.effect_needs = what;
    return option;
  }
};

/// Whether all of the optimizer is offloaded: weights on the host follow its master weights there.
bool is_whole(const zero::OffloadOptimizerOptions& optimizer) {
  return optimizer.enabled() && optimizer.ratio >= 1;
}

void add_optimizer(std::vector<Option>& table, zero::OffloadOptimizerOptions& optimizer) {
  const Needs offloaded{[&optimizer] { return optimizer.enabled(); },
                        "zero_optimization.offload_optimizer.device cpu or nvme"};
  const Needs on_file{[&optimizer] { return optimizer.on_file(); },
                      "zero_optimization.offload_optimizer.device nvme"};
  table.insert(
      table.end(),
      {{.path = "zero_optimization.offload_optimizer.device",
        .flag = "--offload-optimizer",
        .field = &optimizer.device,
        .help = "Place of master weights and of what the optimizer keeps; cpu is the host's "
                "memory, nvme files; the host steps"},
       on_file({.path = "zero_optimization.offload_optimizer.nvme_path",
                .flag = "--offload-optimizer-nvme-path",
                .field = &optimizer.nvme_path,
                .help = "Folder of the optimizer's files, on a disk of each node; they have no "
                        "name and are gone with the process"}),
       offloaded({.path = "zero_optimization.offload_optimizer.pin_memory",
                  .flag = "--offload-optimizer-pin-memory",
                  .field = &optimizer.pin_memory,
                  .help = "Page-lock what lies on the host; what gradients and weights travel "
                          "through always is"}),
       offloaded({.path = "zero_optimization.offload_optimizer.buffer_count",
                  .flag = "--offload-optimizer-buffer-count",
                  .field = &optimizer.buffer_count,
                  .help = "Pieces that are on their way to the host and back at once; 1: nothing "
                          "overlaps",
                  .range = between(1, 1024)}),
       offloaded({.path = "zero_optimization.offload_optimizer.ratio",
                  .flag = "--offload-optimizer-ratio",
                  .field = &optimizer.ratio,
                  .help = "Share of the elements of each unit that is offloaded; the rest stays on "
                          "the device",
                  .range = between(0, 1)}),
       on_file({.path = "zero_optimization.offload_optimizer.pipeline_read",
                .flag = "--offload-optimizer-pipeline-read",
                .field = &optimizer.pipeline_read,
                .help = "Read pieces while the ones before are updated"}),
       on_file({.path = "zero_optimization.offload_optimizer.pipeline_write",
                .flag = "--offload-optimizer-pipeline-write",
                .field = &optimizer.pipeline_write,
                .help = "Write pieces while the next ones are updated"}),
       offloaded({.path = "zeropp.offload_piece_size",
                  .flag = "--offload-piece-size",
                  .field = &optimizer.piece_size,
                  .help = "Largest piece that goes to the host and back",
                  .unit = "elements",
                  .range = at_least(1),
                  .binary_suffix = true})});
  table.push_back(offloaded({.path = "zero_optimization.sub_group_size",
                             .flag = "--sub-group-size",
                             .field = &optimizer.sub_group_size,
                             .help = "Elements of what is offloaded that are updated at a time; no "
                                     "piece that goes to the host and back has more; 0: as not "
                                     "given",
                             .unit = "elements",
                             .binary_suffix = true}));
}

void add_param(std::vector<Option>& table, zero::Options& zero) {
  zero::OffloadParamOptions& param = zero.offload_param;
  const Needs on_file{[&param] { return param.on_file(); },
                      "zero_optimization.offload_param.device nvme"};
  table.insert(
      table.end(),
      {{.path = "zero_optimization.offload_param.device",
        .flag = "--offload-param",
        .field = &param.device,
        .help = "Place of the weights until they are gathered, at stage 3; cpu is the host's "
                "memory, nvme files; the optimizer has to be offloaded too",
        .effect_needs = "zero_optimization.stage 3 with zero_optimization.offload_optimizer.device "
                        "cpu or nvme and a ratio of 1",
        .ruled_out =
            [&zero](const auto&) { return zero.stage < 3 || !is_whole(zero.offload_optimizer); }},
       on_file({.path = "zero_optimization.offload_param.nvme_path",
                .flag = "--offload-param-nvme-path",
                .field = &param.nvme_path,
                .help = "Folder of the files of weights, on a disk of each node"}),
       {.path = "zero_optimization.offload_param.pin_memory",
        .flag = "--offload-param-pin-memory",
        .field = &param.pin_memory,
        .help = "Page-lock the weights on the host; those of fp32 are the optimizer's own, where "
                "it is on the host too",
        .in_effect = [&param] { return param.enabled(); },
        .effect_needs = "zero_optimization.offload_param.device cpu or nvme"},
       on_file({.path = "zero_optimization.offload_param.buffer_count",
                .flag = "--offload-param-buffer-count",
                .field = &param.buffer_count,
                .help = "Units that are read from files at once; 1: each when it is needed",
                .range = between(1, 1024)}),
       on_file({.path = "zero_optimization.offload_param.max_in_cpu",
                .flag = "--offload-param-max-in-cpu",
                .field = &param.max_in_cpu,
                .help = "Elements of a rank that stay in the host's memory all the same, the "
                        "shards of the first units",
                .unit = "elements",
                .range = at_least(0),
                .binary_suffix = true})});
}

void add_aio(std::vector<Option>& table, zero::Options& zero) {
  constexpr double kPage = 4096;
  const Needs on_file{
      [&zero] { return zero.offload_optimizer.on_file() || zero.offload_param.on_file(); },
      "zero_optimization.offload_optimizer.device or offload_param.device nvme"};
  table.insert(
      table.end(),
      {on_file({.path = "aio.block_size",
                .flag = "--aio-block-size",
                .field = &zero.aio.block_size,
                .help = "Size of a request for a part of a transfer; a multiple of 4096",
                .unit = "bytes",
                .range = between(kPage, 1U << 30U),
                .binary_suffix = true}),
       on_file({.path = "aio.queue_depth",
                .flag = "--aio-queue-depth",
                .field = &zero.aio.queue_depth,
                .help = "Requests of a thread that are in flight at once",
                .range = between(1, 4096)}),
       on_file({.path = "aio.thread_count",
                .flag = "--aio-thread-count",
                .field = &zero.aio.threads,
                .help = "Threads that read and write a file, each with its own queue",
                .range = between(1, 64)}),
       on_file({.path = "aio.single_submit",
                .flag = "--aio-single-submit",
                .field = &zero.aio.single_submit,
                .help = "Make a system call for each request, not for all that there are"}),
       on_file({.path = "aio.overlap_events",
                .flag = "--aio-overlap-events",
                .field = &zero.aio.overlap_events,
                .help = "Send new requests before all earlier ones are complete"})});
}

/// Throws Error(usage) where files have no place, or blocks that no disk takes.
void check_files(const zero::Options& zero) {
  for (const auto& [section, path, on_file] :
       {std::tuple("offload_optimizer", zero.offload_optimizer.nvme_path,
                   zero.offload_optimizer.on_file()),
        std::tuple("offload_param", zero.offload_param.nvme_path, zero.offload_param.on_file())}) {
    if (on_file && path.empty()) {
      refuse(
          "zero_optimization.{0}.device nvme needs a folder for its files: set "
          "zero_optimization.{0}.nvme_path",
          section);
    }
  }
  if (zero.aio.block_size % 4096 != 0) {
    refuse("aio.block_size {} is no multiple of 4096, which disks ask for: use {}",
           zero.aio.block_size, (zero.aio.block_size + 4095) / 4096 * 4096);
  }
}

}  // namespace

void add_offload(std::vector<Option>& table, TrainConfig& c) {
  add_optimizer(table, c.zero.offload_optimizer);
  add_param(table, c.zero);
  add_aio(table, c.zero);
}

void resolve_offload(TrainConfig& config) {
  zero::Options& zero = config.zero;
  std::size_t& sub_group = zero.offload_optimizer.sub_group_size;
  if (sub_group == 0) sub_group = zero::OffloadOptimizerOptions{}.sub_group_size;
  check_files(zero);
  if (!zero.offload_param.enabled()) return;
  const char* const key = "zero_optimization.offload_param.device";
  if (zero.stage < 3) {
    refuse(
        "{} has no effect at zero_optimization.stage {}, where every rank holds all weights: set "
        "the stage to 3, or leave it out",
        key, zero.stage);
  }
  if (!is_whole(zero.offload_optimizer)) {
    refuse(
        "{} needs all of the optimizer on the host, where the weights follow its master: set "
        "zero_optimization.offload_optimizer.device to cpu or nvme with a ratio of 1, or leave it "
        "out",
        key);
  }
  if (zero.measure_errors > 0) {
    refuse(
        "{} leaves no weights on the device that zeropp.measure_quantization_error could read: "
        "leave one of them out",
        key);
  }
  if (zero.adaptive_bits.values == zero::AdaptedValues::weights) {
    refuse(
        "{} leaves no weights on the device that zeropp.adaptive_bits could read: leave one of "
        "them out, or adapt those of gradients",
        key);
  }
}

}  // namespace zeropp::config
