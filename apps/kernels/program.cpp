#include "apps/kernels/program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/kernels/options.hpp"
#include "apps/kernels/outputs.hpp"
#include "kernels/core/host_runtime.hpp"
#include "lib/app/app.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/bench/run.hpp"

namespace zeropp::kernels {

namespace {

bool multiplies_bf16(const Problem& problem) { return problem.work.arithmetic == Arithmetic::bf16; }

/// The program in one process: what one rank finds, all have found.
class KernelsProgram {
 public:
  KernelsProgram(const Options& options, const Settings& settings, const app::Context& context)
      : options_(options),
        settings_(settings),
        run_(context, *options.backend, comm::Transport::mpi) {
    outcome_.threads = HostRuntime::threads();
    outcome_.cache_bytes = options_.cache > 0
                               ? options_.cache
                               : cache_bytes(run_.device(), context.gpus.index.front());
    bench_.emplace(run_.device(), kCachesFilled * outcome_.cache_bytes, settings_.repetition);
  }

  ExitCode run() {
    trace::TraceData& head = run_.head();
    head.seed = options_.seed;
    run_.print(preamble(options_, outcome_, head.ranks.front()));
    const bool bf16 = std::ranges::any_of(settings_.cases, [&](const Case& each) {
      return multiplies_bf16(each.make(bench_->device()));
    });
    outcome_.ceilings = measure_ceilings(*bench_, bf16, settings_.choice.source);
    for (const Ceiling& ceiling : outcome_.ceilings) run_.print(line_of(ceiling));
    const Widths widths(settings_.cases);
    run_.print(column_names(widths, settings_.choice.backend));
    for (const Case& each : settings_.cases) measure(each, widths);
    outcome_.ceilings.push_back(measure_copy(*bench_));
    run_.print(line_of(outcome_.ceilings.back()));
    head.verdict = outcome_.verdict();
    run_.print(footer(outcome_));
    run_.write(to_document(outcome_, head), [&] { return to_json(outcome_, head); });
    return trace::is_valid(head.verdict) ? ExitCode::ok : ExitCode::check_failed;
  }

 private:
  void measure(const Case& each, const Widths& widths) {
    run_.end_if_interrupted(each.name());
    const Problem problem = each.make(bench_->device());
    Row row = to_row(each, problem, bench_->measure(problem), ceilings_of(outcome_.ceilings));
    if (!row.valid())
      log::error(fmt::format("{} on {}: {}", row.name, enum_name(*options_.backend), row.verdict));
    run_.print(line_of(row, widths));
    outcome_.rows.push_back(std::move(row));
  }

  const Options& options_;
  const Settings& settings_;
  bench::Run run_;
  Outcome outcome_;
  std::optional<Bench> bench_;
};

void print_list(const Settings& settings, const std::vector<const Kernel*>& table) {
  for (const Kernel* kernel : table) {
    const auto is_of = [&](const Case& each) { return each.kernel == kernel->name; };
    if (std::ranges::none_of(settings.cases, is_of)) continue;
    standard_output::write(fmt::format("# {}: {}\n", kernel->name, kernel->summary));
    for (const Case& each : settings.cases) {
      if (is_of(each)) standard_output::write(each.name() + "\n");
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
