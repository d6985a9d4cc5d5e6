// Parts of a program that measures, around its measurement: the head of its results, its device,
// its text on standard output, its trace and its JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::bench {

class Run {
 public:
  /// Locks the outputs, takes this rank's device, warns of GPUs that NCCL cannot use well, and
  /// begins the trace. Collective. Throws AgreedError. `context` outlives the run.
  Run(const app::Context& context, Backend backend, comm::Transport transport);

  [[nodiscard]] const app::Context& context() const { return context_; }
  [[nodiscard]] comm::Control& control() const { return context_.control(); }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] trace::TraceData& head() { return head_; }

  /// Prints on rank 0.
  void print(const std::string& text) const;
  /// Throws AgreedError(interrupted or requeue) on all ranks where one of them got a signal: what
  /// was measured is not kept. `where` as in app::nothing_kept(). Collective.
  void end_if_interrupted(const std::string& where) const;
  /// Writes the trace and the JSON where flags ask for them, and prints where the trace is. Called
  /// by rank 0 alone. Throws Error(io).
  void write(const trace::Document& document, const std::function<nlohmann::json()>& summary) const;

 private:
  const app::Context& context_;
  app::OutputLock outputs_;
  Device device_;
  trace::TraceData head_;
};

/// Head of the JSON of every such program: its schema and version, the software, begin and end,
/// provenance and configuration.
nlohmann::json json_head(const char* schema, const char* version, const trace::TraceData& run);
/// The ranks and what they ran on, under nccl-tests' names.
nlohmann::json devices(const trace::TraceData& run);
/// null for a value that is not finite.
nlohmann::json number(double value);
/// Seconds as a list of microseconds.
nlohmann::json microseconds(const std::vector<double>& seconds);

}  // namespace zeropp::bench
