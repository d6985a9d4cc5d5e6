#include "apps/kernels/program.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "apps/kernels/cache.hpp"
#include "apps/kernels/columns.hpp"
#include "apps/kernels/options.hpp"
#include "apps/kernels/outputs.hpp"
#include "kernels/core/host_runtime.hpp"
#include "lib/app/app.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"

namespace zeropp::kernels {

namespace {

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void print(const std::string& text) { standard_output::write(text); }

bool multiplies_bf16(const Problem& problem) { return problem.work.arithmetic == Arithmetic::bf16; }

/// The program in one process: what one rank finds, all have found.
class KernelsProgram {
 public:
  KernelsProgram(const Options& options, const Settings& settings, const app::Context& context)
      : options_(options), settings_(settings), context_(context) {
    outputs_ = app::preflight_outputs(context_);
    const int gpu = context_.gpus.index.front();
    const ComputeDevice device =
        settings_.choice.backend == Backend::cuda ? Device::cuda(gpu) : Device::host();
    outcome_.threads = HostRuntime::threads();
    outcome_.cache_bytes = options_.cache > 0 ? options_.cache : cache_bytes(device, gpu);
    bench_.emplace(device, kCachesFilled * outcome_.cache_bytes, settings_.repetition);
  }

  ExitCode run() {
    trace::TraceData head = app::run_trace(context_, *options_.backend, comm::Transport::mpi);
    head.seed = options_.seed;
    print(preamble(options_, outcome_, head.ranks.front()));
    const bool bf16 = std::ranges::any_of(settings_.cases, [&](const Case& each) {
      return multiplies_bf16(each.make(bench_->device()));
    });
    outcome_.ceilings = measure_ceilings(*bench_, bf16, settings_.choice.source);
    for (const Ceiling& ceiling : outcome_.ceilings) print(line_of(ceiling));
    const Widths widths(settings_.cases);
    print(column_names(widths, settings_.choice.backend));
    for (const Case& each : settings_.cases) measure(each, widths);
    outcome_.ceilings.push_back(measure_copy(*bench_));
    print(line_of(outcome_.ceilings.back()));
    head.verdict = outcome_.verdict();
    print(footer(outcome_));
    app::write_outputs(context_, outputs_, to_document(outcome_, head),
                       [&] { return to_json(outcome_, head, now()); });
    return trace::is_valid(head.verdict) ? ExitCode::ok : ExitCode::check_failed;
  }

 private:
  void measure(const Case& each, const Widths& widths) {
    if (const int signal = app::agreed_interrupt(context_.control()); signal != 0) {
      throw app::nothing_kept(signal, each.name());
    }
    const Problem problem = each.make(bench_->device());
    Row row = to_row(each, problem, bench_->measure(problem), ceilings_of(outcome_.ceilings));
    if (!row.valid())
      log::error(fmt::format("{} on {}: {}", row.name, enum_name(*options_.backend), row.verdict));
    print(line_of(row, widths));
    outcome_.rows.push_back(std::move(row));
  }

  const Options& options_;
  const Settings& settings_;
  const app::Context& context_;
  app::OutputLock outputs_;
  Outcome outcome_;
  std::optional<Bench> bench_;
};

void print_list(const Settings& settings, const std::vector<const Kernel*>& table) {
  for (const Kernel* kernel : table) {
    const auto is_of = [&](const Case& each) { return each.kernel == kernel->name; };
    if (std::ranges::none_of(settings.cases, is_of)) continue;
    print(fmt::format("# {}: {}\n", kernel->name, kernel->summary));
    for (const Case& each : settings.cases) {
      if (is_of(each)) print(each.name() + "\n");
    }
  }
}

}  // namespace

int run(int argc, char** argv, const std::vector<const Kernel*>& table) {
  Options options;
  Settings settings;
  app::App app{.name = "kernels",
               .summary = "Measures every kernel beside what the machine can do at most",
               .examples = {"zpp_kernels --filter 'encode|decode' --codec int8:256,int4:128",
                            "zpp_kernels --backend host --list"},
               .details = kDetails,
               .options = option_table(options)};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    settings = resolve(options, given, machine, table);
  };
  app.run = [&](const app::Context& context) {
    if (options.list) {
      print_list(settings, table);
      return ExitCode::ok;
    }
    return KernelsProgram(options, settings, context).run();
  };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::kernels
