#include "lib/trace/provenance.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string_view>
#include <system_error>

#include "lib/base/fault.hpp"
#include "lib/base/text.hpp"
#include "zeropp_build.hpp"  // generated: cmake/ZeroppBuildInfo.cmake

namespace zeropp::trace {

namespace {

constexpr std::array<std::string_view, 7> allowed_prefixes{"NCCL_", "CUDA_", "UCX_",     "FI_",
                                                           "HDF5_", "OMP_",  "OPENBLAS_"};
/// Parameters of Open MPI that move and bind. Its launcher hands itself the rest (ess, orte, pmix,
/// initial_wdir, ...), which says of a run no more than its layout, and where a user's files lie.
constexpr std::array<std::string_view, 15> mpi_parameters{
    "bml_",  "btl_",  "coll_", "hwloc_", "io_",     "mpi_",   "mpool_", "mtl_",
    "odls_", "opal_", "osc_",  "pml_",   "rcache_", "rmaps_", "topo_"};
constexpr std::array<std::string_view, 10> slurm_layout{
    "SLURM_CPUS_PER_TASK",   "SLURM_DISTRIBUTION",      "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE",
    "SLURM_JOB_NUM_NODES",   "SLURM_JOB_CPUS_PER_NODE", "SLURM_NNODES",       "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
constexpr std::array<std::string_view, 6> slurm_job{"SLURM_JOB_ID",        "SLURM_ARRAY_JOB_ID",
                                                    "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
                                                    "SLURM_JOB_NODELIST",  "SLURM_CLUSTER_NAME"};
constexpr std::array<std::string_view, 4> secret_words{"TOKEN", "KEY", "SECRET", "PASS"};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A parameter of a framework, or the choice of its components: "btl_tcp_if_include", "btl".
bool configures_mpi(std::string_view name) {
  constexpr std::string_view prefix = "OMPI_MCA_";
  if (!name.starts_with(prefix)) return false;
  const std::string parameter = std::string(name.substr(prefix.size())) + "_";
  return std::any_of(mpi_parameters.begin(), mpi_parameters.end(),
                     [&](std::string_view of) { return parameter.starts_with(of); });
}

bool is_allowed(std::string_view name) {
  return contains(slurm_layout, name) || configures_mpi(name) ||
         std::any_of(allowed_prefixes.begin(), allowed_prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return std::any_of(secret_words.begin(), secret_words.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

/// Calls `visit(name, value)` for every variable.
template <class Visit>
void for_each_variable(const char* const* environment, Visit visit) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view line(*environment);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    visit(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
}

/// Working folder; empty where it is gone: then no path lies inside.
std::filesystem::path working_folder() {
  std::error_code gone;
  return std::filesystem::current_path(gone);
}

std::string random_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

}  // namespace

std::map<std::string, std::string> allowed_environment(const char* const* environment,
                                                       const std::filesystem::path& folder) {
  std::map<std::string, std::string> allowed;
  for_each_variable(environment, [&](const std::string& name, const std::string& value) {
    if (is_allowed(name))
      allowed[name] = is_secret(name) ? "<redacted>" : hide_paths(value, folder);
  });
  return allowed;
}

std::string quote_command(int argc, const char* const* argv) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (i > 0) line += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

Provenance collect_provenance(const std::string& command_line) {
  Provenance p;
  p.version = build::version;
  p.git_commit = build::git_commit;
  p.git_dirty = build::git_dirty;
  p.build_type = build::build_type;
  p.cxx_compiler = build::cxx_compiler;
  p.run_id = random_id();
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + fault::of_clock());
  p.started_at = utc(now);
  p.command_line = command_line;
  p.environment = allowed_environment(environ, working_folder());
  for_each_variable(environ, [&](const std::string& name, const std::string& value) {
    if (contains(slurm_job, name)) p.job[name] = value;
  });
  return p;
}

std::string describe_version() {
  return fmt::format("{} (git {}{})", build::version,
                     std::string_view(build::git_commit).substr(0, 12),
                     build::git_dirty ? ", dirty" : "");
}

namespace {

constexpr std::string_view before_paths = ":,;= '\"";
constexpr std::string_view after_paths = ":,;'\"";

bool begins_path(std::string_view text, std::size_t at) {
  const bool first = at == 0 || before_paths.find(text[at - 1]) != std::string_view::npos;
  return first && text[at] == '/' && text.substr(at, 2) != "//";
}

std::string hidden(const std::string& path, const std::filesystem::path& folder) {
  if (folder == folder.root_path()) return "<path>";  // everything lies inside the root
  const std::filesystem::path inside =
      std::filesystem::path(path).lexically_normal().lexically_relative(folder);
  return inside.empty() || *inside.begin() == ".." ? "<path>" : inside.string();
}

}  // namespace

std::string hide_paths(const std::string& text, const std::filesystem::path& folder) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_path(text, at)) {
      shown += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(after_paths, at), text.size());
    shown += hidden(text.substr(at, end - at), folder);
    at = end;
  }
  return shown;
}

}  // namespace zeropp::trace
