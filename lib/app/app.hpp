// Description of a program of apps/, and what it gets to run with. run() is the frame that all
// share: command line, configuration file, MPI, the host runtime, the agreement of all ranks on the
// configuration, the topology, errors and exit codes. A program is one file with a main() that
// fills an App and calls run().
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/app/gpus.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/world.hpp"
#include "lib/config/groups.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"
#include "lib/device/device.hpp"
#include "lib/trace/provenance.hpp"

namespace zeropp::app {

/// Call of a program: its command line, its configuration, and where its results go; every program
/// has this, with ranks or without. Refers to the option table of the program, which outlives it.
class Call {
 public:
  Call(const std::vector<config::Option>& options, std::string name, std::string command_line)
      : options_(options), name_(std::move(name)), command_line_(std::move(command_line)) {}

  /// "train": of the program zpp_train.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The effective configuration as canonical JSON, as the options are now.
  [[nodiscard]] std::string config_json() const;
  /// Provenance of the run, complete with the versions of libraries.
  [[nodiscard]] trace::Provenance provenance() const;
  /// Command line that the program was called with.
  [[nodiscard]] const std::string& command_line() const { return command_line_; }
  /// The option table, as resolved.
  [[nodiscard]] const std::vector<config::Option>& options() const { return options_; }
  /// Path of the trace, DIR/<app>.h5; none without --output.
  [[nodiscard]] std::optional<std::filesystem::path> trace_path() const {
    if (!output) return std::nullopt;
    return *output / (name_ + ".h5");
  }
  /// The path, for a line of output, or that there is no trace and how to get one.
  [[nodiscard]] std::string describe_trace() const;

  std::optional<std::filesystem::path> output;  ///< --output: without it there is no trace
  std::optional<std::filesystem::path> json;    ///< --json
  std::function<std::string()> canonical;       ///< ConfigFile's; empty: the options are all

 private:
  const std::vector<config::Option>& options_;
  std::string name_;
  std::string command_line_;
};

/// Lives as long as App::run does.
class Context : public Call {
 public:
  Context(comm::World& world, const std::vector<config::Option>& options, std::string name,
          std::string command_line)
      : Call(options, std::move(name), std::move(command_line)), world_(world) {}

  [[nodiscard]] comm::World& world() const { return world_; }
  [[nodiscard]] comm::Control& control() const { return world_.control(); }
  [[nodiscard]] const comm::Topology& topology() const { return world_.topology(); }
  /// Rank 0 prints and writes files.
  [[nodiscard]] bool is_root() const { return control().rank() == 0; }

  /// Runs `step` here, then agrees on its outcome: when it threw on any rank, all throw AgreedError
  /// with the message of the lowest failing rank. For what one rank may find alone: files, data,
  /// memory. Throws std::logic_error where `step` communicated: a rank that fails before that would
  /// ask for agreement while the others wait for it elsewhere.
  void agree_on(const std::function<void()>& step) const;

  /// The device of this rank: for the back end cuda the GPU that `gpus` gives it, else the host.
  /// Collective. Throws AgreedError.
  [[nodiscard]] Device own_device(Backend backend) const;

  GpuPlacement gpus;  ///< of all ranks

 private:
  comm::World& world_;
};

/// Configuration file of a program whose --config is more than an object with the keys of its
/// options.
struct ConfigFile {
  std::string help;  ///< of the flag
  /// Reads the file; called before the flags set the options. Throws Error.
  std::function<void(const std::filesystem::path&)> read;
  /// The effective configuration, file and options, as canonical JSON.
  std::function<std::string()> canonical;
};

/// A flag that prints a text and ends, as --help does.
struct Answer {
  std::string flag;
  std::string help;
  std::function<std::string()> text;
};

/// A flag of another program that sets nothing here, so that its command lines are taken.
struct TakenFlag {
  std::string names;  ///< separated by commas: "-p,--parallel_init"
  std::string help;
  std::string group;  ///< name of the group of --help that lists it; empty: none does
  /// Checks the value; returns a warning, or nothing. Throws Error(usage).
  std::function<std::string(const std::string& value)> take;
};

struct App {
  std::string name;          ///< "train": the program is zpp_train, its trace train.h5
  std::string summary = {};  ///< what it does: a line of --help, without a full stop
  std::vector<std::string> examples = {};  ///< command lines, for --help
  std::string details = {};  ///< what else --help says above the flags, in lines of 100 columns
  std::vector<config::Option> options = {};  ///< bound to the program's own configuration
  /// Groups of the options; each option is in one.
  std::vector<config::OptionGroup> groups = {{"options", "Options", "All options.", {""}}};
  std::vector<std::string> common_flags = {};  ///< those that --help lists; empty: all
  const std::size_t* node_size = nullptr;      ///< ranks per node as declared; null or 0: as found
  /// Ranks that one process runs (lib/comm/virtual_ranks.hpp); null or 0: those that were launched.
  /// Then `run` is called by each of them; they share the program's configuration.
  const std::size_t* virtual_ranks = nullptr;
  std::string json_flags = "-J,--json";     ///< names of the flag, separated by commas
  std::string timeout_flags = "--timeout";  ///< names of the flag, separated by commas
  std::string config_flags = "--config";    ///< names of the flag, separated by commas
  /// Reason why a training configuration changes nothing in a program whose options are not the
  /// trainer's: its --config may hold one as well. Empty: it may not.
  std::string training_ignored = {};
  std::vector<Answer> answers = {};
  std::vector<TakenFlag> taken_flags = {};
  /// Program that takes a flag that is unknown here, or a value of it that is refused, in a few
  /// words for the message; empty: no program is known.
  std::function<std::string(const std::string& flag, const std::string& value)> elsewhere = {};
  std::optional<ConfigFile> config_file = {};
  /// Completes and checks the configuration once topology and GPUs are known. Throws Error.
  std::function<void(const std::vector<config::Option>&, const config::Machine&)> resolve = {};
  std::function<ExitCode(Context&)> run = {};
  /// Body of a program without ranks, instead of `run`: MPI is not started, `resolve` gets a
  /// machine of one rank without a GPU, and there is no --timeout. Under a launcher the process of
  /// rank 0 runs it; the others end at once, with code 0.
  std::function<ExitCode(const Call&)> run_alone = {};
};

/// Moves `app` in: resolve and run may refer to the program's configuration, not to the App.
/// Returns the exit code of main(). Prints every error as one line, `zpp_<name>: error: ...`, from
/// one rank. An error that one rank alone meets ends all ranks (MPI_Abort).
int run(App app, int argc, char** argv);

}  // namespace zeropp::app
