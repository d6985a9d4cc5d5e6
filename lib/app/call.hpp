// Call of a program: its command line, its configuration, and where its results go; every program
// has this, with ranks or without.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/trace/provenance.hpp"

namespace zeropp::app {

/// Refers to the option table of the program, which outlives it.
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
  /// Path of the trace: DIR/<app>.h5; DIR is the current folder without --output.
  [[nodiscard]] std::filesystem::path trace_path() const {
    return output.value_or(".") / (name_ + ".h5");
  }

  std::optional<std::filesystem::path> output;  ///< --output
  std::optional<std::filesystem::path> json;    ///< --json
  std::function<std::string()> canonical;       ///< ConfigFile's; empty: the options are all

 private:
  const std::vector<config::Option>& options_;
  std::string name_;
  std::string command_line_;
};

}  // namespace zeropp::app
