#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "lib/app/agreement.hpp"
#include "lib/app/app.hpp"
#include "lib/app/command_line.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/app/job.hpp"
#include "lib/app/registries.hpp"
#include "lib/app/versions.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/host.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/status.hpp"
#include "lib/base/text.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/virtual_ranks.hpp"
#include "lib/config/flag_names.hpp"
#include "lib/config/json.hpp"

namespace zeropp::app {
namespace {

/// Whether a launcher gave this process a rank other than 0: known before MPI starts.
bool is_launched_beside_rank_0() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(variable)) return std::string_view(rank) != "0";
  }
  return false;
}

/// Tells the call where results go, and what the configuration is.
void keep_outputs(Call& call, const App& app, const CommandLine& line) {
  call.output = line.output;
  call.json = line.json;
  if (app.config_file) call.canonical = app.config_file->canonical;
}

/// Calls app.resolve, whose refusals name options by their keys: their flags are added.
void resolve(const App& app, const config::Machine& machine) {
  try {
    app.resolve(app.options, machine);
  } catch (const Error& refusal) {
    throw Error(refusal.code(), config::with_flags(refusal.what(), app.options));
  }
}

/// Throws AgreedError where ranks have different configurations.
void agree_on_options(const comm::World& world, const App& app, const CommandLine& line) {
  const std::string canonical =
      app.config_file ? app.config_file->canonical() : config::canonical_json(app.options);
  agree_on_configuration(world.control(),
                         fmt::format(R"({{"program":"zpp_{} {}","flags":{{"--timeout":{}}},)"
                                     R"("configuration":{}}})",
                                     app.name, trace::describe_version(), line.timeout, canonical));
}

/// Runs the program on ranks that have no topology yet, and have the same configuration.
ExitCode run_ranks(comm::World& world, App& app, const CommandLine& line,
                   const std::string& command) {
  Context context(world, app.options, app.name, command);
  keep_outputs(context, app, line);
  world.control().agree(status_of([&] {
    world.set_topology(app.node_size == nullptr ? 0 : checked<int>(*app.node_size, "node size"));
  }));
  log::set_muted(!context.is_root());
  context.gpus = find_gpus(world);
  if (app.resolve) {
    const bool has_configuration = context.is_root() || !context.topology().virtual_ranks;
    context.agree_on([&] {
      if (has_configuration) resolve(app, machine_of(context.topology(), context.gpus));
    });
    agree_on_options(world, app, line);  // again: what files decided, each rank has read itself
  }
  for (const std::string& warning : line.warnings) log::warn(warning);
  Job::of_process()->start_host_runtime();
  return app.run(context);
}

/// Runs the program on virtual ranks of this process.
ExitCode run_virtual_ranks(const comm::World& world, App& app, const CommandLine& line,
                           const std::string& command) {
  if (world.size() > 1) {
    throw comm::AgreedError(
        ExitCode::usage,
        fmt::format("--virtual-ranks {} are of one process, and {} were started: start one",
                    *app.virtual_ranks, world.size()),
        0);
  }
  Job::of_process()->start_host_runtime();  // by the thread that ends it
  ExitCode code = ExitCode::ok;
  try {
    comm::VirtualRanks(checked<int>(*app.virtual_ranks, "number of virtual ranks"))
        .run([&](comm::World& ranks) {
          const ExitCode own = run_ranks(ranks, app, line, command);
          if (ranks.rank() == 0) code = own;
        });
  } catch (const comm::AgreedError& error) {
    throw comm::AgreedError(error.code(), error.what(), 0);
  }
  return code;
}

/// Runs the program on the ranks that were launched, or as many as it asks for.
ExitCode run_in(comm::World& world, App& app, const std::optional<Error>& parsed,
                const CommandLine& line, const std::string& command) {
  world.control().agree(parsed);
  world.watch(Seconds{line.timeout}, line.output.value_or("."));  // a hang leaves records
  agree_on_options(world, app, line);
  // All ranks have the same configuration from here on, and come to the same refusals.
  const bool is_virtual = app.virtual_ranks != nullptr && *app.virtual_ranks > 0;
  return is_virtual ? run_virtual_ranks(world, app, line, command)
                    : run_ranks(world, app, line, command);
}

/// A program without ranks.
ExitCode run_without_ranks(App& app, const std::optional<Error>& parsed, const CommandLine& line,
                           const std::string& command) {
  if (is_launched_beside_rank_0()) return ExitCode::ok;
  if (parsed) throw Error(*parsed);
  Call call(app.options, app.name, command);
  keep_outputs(call, app, line);
  if (app.resolve) resolve(app, machine_of(comm::Topology{}));
  for (const std::string& warning : line.warnings) log::warn(warning);
  return app.run_alone(call);
}

}  // namespace

std::string Call::describe_trace() const {
  const auto path = trace_path();
  return path ? escaped(path->string()) : "no trace: --output DIR writes one";
}

std::string Call::config_json() const {
  return canonical ? canonical() : config::canonical_json(options_);
}

trace::Provenance Call::provenance() const {
  auto provenance = trace::collect_provenance(command_line_);
  const Versions versions = library_versions();
  provenance.mpi_library = versions.mpi;
  provenance.hdf5_version = versions.hdf5;
  provenance.kokkos_version = versions.kokkos;
  provenance.blas_library = versions.blas;
  provenance.cuda_versions = versions.cuda;
  return provenance;
}

void Context::agree_on(const std::function<void()>& step) const {
  const comm::FlightRecord& record = comm::FlightRecord::of_process();
  const std::uint64_t before = record.begun();
  const std::optional<Error> status = status_of(step);
  if (record.begun() != before) {
    throw std::logic_error("a step that ranks agree on has communicated: agree after it");
  }
  control().agree(status);
}

namespace {

/// Runs the program, to the end of MPI where it started MPI.
ExitCode run_program(App& app, int argc, char** argv) {
  const std::string command = trace::quote_command(argc, argv);
  CommandLine line;
  const auto parsed = status_of([&] { line = parse_command_line(app, argc, argv); });
  if (line.answer) {
    if (!is_launched_beside_rank_0()) standard_output::write(*line.answer);
    return ExitCode::ok;
  }
  if (app.run_alone) {
    try {
      return run_without_ranks(app, parsed, line, command);
    } catch (...) {
      const Error error = current_error();
      log::error(error.what());
      return error.code();
    }
  }
  install_interrupt_handlers();
  std::optional<Job> own;
  std::unique_ptr<comm::World> part;  // of a job that runs other programs too
  comm::World* world = nullptr;
  try {
    if (Job* job = Job::of_process()) {
      part = job->world().split(0);
      world = part.get();
    } else {
      world = &own.emplace(argc, argv).world();
    }
    return run_in(*world, app, parsed, line, command);
  } catch (const comm::AgreedError& error) {
    if (world->control().rank() == error.reporter()) log::error(error.what());
    return error.code();
  } catch (...) {
    const Error error = current_error();
    if (world == nullptr || world->size() == 1) {
      log::error(error.what());
      return error.code();
    }
    // The error is known to this rank alone: the others may be waiting for it.
    log::error(
        fmt::format("{} (rank {} on {})", error.what(), world->control().rank(), host_name()));
    comm::World::abort(error.code());
  }
}

}  // namespace

int run(App app, int argc, char** argv) {
  standard_output::claim_descriptors();
  log::set_program("zpp_" + app.name);
  ExitCode code = run_program(app, argc, argv);
  // Files that hold the result are written by now.
  if (const auto lost = status_of([] { standard_output::require_written(); })) {
    log::error(lost->what());
    if (code == ExitCode::ok) code = lost->code();
  }
  return static_cast<int>(code);
}

}  // namespace zeropp::app
