#include "apps/sweep/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <numeric>
#include <optional>

#include "apps/sweep/nccl_flags.hpp"
#include "apps/sweep/options.hpp"
#include "apps/sweep/outcome.hpp"
#include "apps/sweep/outputs.hpp"
#include "lib/app/gpu_sampling.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/base/log.hpp"
#include "lib/bench/run.hpp"

namespace zeropp::sweep {

namespace {

class Sweep {
 public:
  Sweep(const Options& options, const Settings& settings, const app::Context& context)
      : options_(options),
        settings_(settings),
        context_(context),
        run_(context, *options.backend, *options.transport) {
    context_.agree_on([&] { stream_ = run_.device().make_stream("sweep"); });
    if (const std::string warning = about_split(); !warning.empty()) log::warn(warning);
    groups_ = context_.world().make_groups(
        {.levels = needs_levels(),
         .device = run_.device(),
         .transport = *options_.transport,
         .rail_lanes = options_.rail_lanes,
         .copy_engines = options_.copy_engines == comm::CopyEngines::on});
  }

  ExitCode run() {
    trace::TraceData& head = run_.head();
    head.seed = options_.seed;
    run_.print(preamble(options_, settings_, context_.topology(), head.ranks) + planned_rows());
    run_.print(column_names(options_.per_iteration_timing > 0));
    app::GpuSampling sampling(context_, *options_.backend, options_.gpu_sampling);
    for (const Collective* collective : settings_.collectives) {
      if (outcome_.ended.empty()) measure(*collective);
    }
    sampling.finish(head);
    run_.print(footer(outcome_));
    // Rank 0 alone has the lines of all ranks, all have the same verdict.
    for (const std::string& line : outcome_.first_findings()) log::error(line);
    if (signal_ != 0) head.interrupted = app::name_of_interrupt(signal_);
    head.verdict = outcome_.verdict();
    context_.agree_on([&] {
      if (!context_.is_root()) return;
      run_.write(to_document(outcome_, head), [&] { return to_json(outcome_, head); });
    });
    if (!outcome_.ended.empty()) {
      log::warn(fmt::format("{} after {} rows{}: start again to run it whole{}", outcome_.ended,
                            outcome_.rows.size(), context_.output ? ", which are in the trace" : "",
                            failure_ ? ", with a smaller --maxbytes (-e)" : ""));
    }
    if (failure_) throw *failure_;
    if (outcome_.invalid() > 0) return ExitCode::check_failed;
    if (signal_ == 0) return ExitCode::ok;
    return signal_ == SIGINT ? ExitCode::interrupted : ExitCode::requeue;
  }

 private:
  /// A collective with all that its rows have in common but size and variant.
  struct Setting {
    const Collective& collective;
    comm::Communicator& group;
    Shape shape;
  };

  [[nodiscard]] bool needs_levels() const {
    const auto is_part = [](GroupKind group) { return group != GroupKind::world; };
    if (std::ranges::any_of(settings_.groups, is_part)) return true;
    for (const Collective* collective : settings_.collectives) {
      for (const Variant& variant : variants(settings_, *collective, GroupKind::world)) {
        if (is_hierarchical(*collective, variant.algorithm)) return true;
      }
    }
    return false;
  }

  [[nodiscard]] comm::Communicator& group_of(GroupKind group) const {
    switch (group) {
      case GroupKind::node:
        return *groups_.node;
      case GroupKind::rail:
        return *groups_.rail;
      case GroupKind::world:
        break;
    }
    return *groups_.world;
  }

  /// Ranks of the world that are in the group with this one, in the group's order.
  [[nodiscard]] std::vector<int> members_of(GroupKind group) const {
    const auto& ranks = context_.world().local_ranks();
    const comm::LocalRank own = ranks[static_cast<std::size_t>(context_.control().rank())];
    std::vector<int> members;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (group == GroupKind::node && ranks[rank].node != own.node) continue;
      if (group == GroupKind::rail && ranks[rank].local != own.local) continue;
      members.push_back(static_cast<int>(rank));
    }
    return members;
  }

  [[nodiscard]] std::vector<int> roots_of(const Collective& collective,
                                          const comm::Communicator& group) const {
    if (!collective.has_root()) return {0};
    if (!settings_.roots.empty()) return settings_.roots;
    std::vector<int> all(static_cast<std::size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// How many rows will come.
  [[nodiscard]] std::string planned_rows() const {
    std::size_t all = 0;
    std::vector<std::string> each;
    for (const Collective* collective : settings_.collectives) {
      std::size_t rows = 0;
      for (const GroupKind group : settings_.groups) {
        rows += variants(settings_, *collective, group).size() * settings_.dtypes.size() *
                roots_of(*collective, group_of(group)).size() * settings_.sizes.size();
      }
      each.push_back(fmt::format("{} {}", collective->name(), rows));
      all += rows;
    }
    std::string text = fmt::format("# rows to come: {} ({})\n", all, fmt::join(each, ", "));
    if (each.size() > 1) {
      text +=
          "# all_reduce_perf of nccl-tests is --collective all_reduce --algorithm native, and so "
          "for the others\n";
    }
    return text + "#\n";
  }

  void measure(const Collective& collective) {
    for (const GroupKind group : settings_.groups) {
      Setting setting{collective, group_of(group), {}};
      setting.shape.rank = setting.group.rank();
      setting.shape.members = members_of(group);
      setting.shape.topology = context_.topology();
      if (group != GroupKind::world) {
        const int size = setting.group.size();
        setting.shape.topology = {.world_size = size, .ranks_per_node = size};
      }
      const auto all = variants(settings_, collective, group);
      if (all.empty()) {
        run_.print(
            fmt::format("# {} on group {}: none of its algorithms carries the codecs asked for\n",
                        collective.name(), enum_name(group)));
        continue;
      }
      for (const Dtype dtype : settings_.dtypes) {
        setting.shape.dtype = dtype;
        for (const int root : roots_of(collective, setting.group)) {
          setting.shape.root = root;
          for (const std::size_t size : settings_.sizes) {
            measure(setting, size, all);
            if (!outcome_.ended.empty()) return;
          }
        }
      }
    }
  }

  /// Measures all variants of one size, or those before a signal or before all ranks run out of
  /// memory, then sets their ratios.
  void measure(Setting& setting, std::size_t size, const std::vector<Variant>& all) {
    const Collective& collective = setting.collective;
    Shape& shape = setting.shape;
    shape.count = collective.count(size, shape.dtype, shape.ranks());
    std::vector<Row> rows;
    for (const Variant& variant : all) {
      signal_ = app::agreed_interrupt(context_.control());
      if (signal_ != 0) {
        outcome_.ended = fmt::format("interrupted by {}", app::name_of_interrupt(signal_));
        break;
      }
      Row row;
      row.collective = collective.name();
      row.codec = codec::to_string(variant.codec);
      row.algorithm = variant.algorithm;
      row.group = setting.group.name();
      row.transport = enum_name(*options_.transport);
      row.size = collective.bytes(shape);
      row.count = shape.count;
      row.type = type_name(shape.dtype);
      row.redop = collective.redop();
      row.root = collective.has_root() ? shape.root : -1;
      const std::string what =
          fmt::format("{} {} {} of {} bytes", row.collective, row.codec, row.algorithm, row.size);
      try {
        bench({context_, groups_, setting.group, run_.device(), stream_,
               Workers::on_this_host(context_.world().host_ranks())},
              settings_.bench, collective, shape, variant, row, outcome_.findings);
      } catch (const comm::AgreedError& error) {  // on all ranks: what was measured is kept first
        failure_ = error;
        outcome_.ended = fmt::format("ended by {}", what);
        break;
      }
      rows.push_back(std::move(row));
    }
    compare(rows, &Row::out_of_place);
    compare(rows, &Row::in_place);
    for (Row& row : rows) {
      run_.print(line_of(row, context_.world().host_ranks() == context_.world().size(),
                         options_.per_iteration_timing > 0));
      outcome_.rows.push_back(std::move(row));
    }
  }

  /// Sets each row's ratio to the fastest uncompressed row, the strictest baseline of the call.
  static void compare(std::vector<Row>& rows, Measurement Row::*mode) {
    double fastest = std::numeric_limits<double>::quiet_NaN();
    for (const Row& row : rows) {
      if (row.codec == "none") fastest = std::fmin(fastest, (row.*mode).time);
    }
    for (Row& row : rows) (row.*mode).ratio = fastest / (row.*mode).time;
  }

  const Options& options_;
  const Settings& settings_;
  const app::Context& context_;
  bench::Run run_;
  Stream stream_;
  comm::Groups groups_;
  Outcome outcome_;
  int signal_ = 0;                            ///< that asked to end, on any rank
  std::optional<comm::AgreedError> failure_;  ///< that ended it
};

}  // namespace

app::App description(Options& options, Settings& settings,
                     const std::vector<const Collective*>& table) {
  app::App app{
      .name = "sweep",
      .summary = "Measures and checks collectives, with the flags and columns of nccl-tests",
      .examples = {"mpirun -n 4 zpp_sweep -b 1K -e 64M -f 4 --codec none,int8:256 "
                   "--node-size 2",
                   "mpirun -n 8 zpp_sweep -b 1M -e 4G -f 4 --collective all_gather -d "
                   "bfloat16 -J gather.json"},
      .options = option_table(options),
      .groups = option_groups(),
      .common_flags = {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor", "--collective",
                       "--codec", "--algorithm", "--group", "--datatype", "--iters", "--run_cycles",
                       "--max-seconds", "--check", "--check-maxbytes", "--node-size", "--backend",
                       "--transport"},
      .node_size = &options.node_size,
      .json_flags = "-J,--json,--output_file",
      .timeout_flags = "-T,--timeout",
      .taken_flags = nccl_flags()};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    settings = resolve(options, given, machine, table);
  };
  return app;
}

int run(int argc, char** argv, const std::vector<const Collective*>& table) {
  Options options;
  Settings settings;
  app::App app = description(options, settings, table);
  app.run = [&](const app::Context& context) { return Sweep(options, settings, context).run(); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::sweep
