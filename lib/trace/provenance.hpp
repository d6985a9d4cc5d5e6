// Provenance of a trace: the source tree, the compiler, the libraries, the command, the job. The
// environment goes by an allow-list, never whole.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace zeropp::trace {

struct Provenance {
  std::string version;
  std::string git_commit;  ///< "unknown" when built outside a clone
  bool git_dirty = false;  ///< sources differed from the commit when it was built
  std::string build_type;
  std::string cxx_compiler;
  std::string mpi_library;
  std::string hdf5_version;
  std::string kokkos_version;
  std::string blas_library;
  std::string cuda_versions;  ///< empty in a build without CUDA
  std::string run_id;         ///< 128 random bits, hexadecimal
  std::string started_at;     ///< ISO 8601, UTC
  std::string command_line;
  std::map<std::string, std::string> job;          ///< SLURM_* identifiers that are set
  std::map<std::string, std::string> environment;  ///< allowed variables that are set
};

/// Collects everything but the versions of the libraries, which are the caller's to fill in.
Provenance collect_provenance(const std::string& command_line);

/// The allowed variables of `environment` ("NAME=value" lines, ended by null, as in environ): those
/// that configure, not what a launcher sets for itself. The values of names that look like secrets
/// are redacted, absolute paths in the others shown from `folder`, as hide_paths() has it.
std::map<std::string, std::string> allowed_environment(const char* const* environment,
                                                       const std::filesystem::path& folder);

/// Words of a command as one line that a shell reads back.
std::string quote_command(int argc, const char* const* argv);

/// "0.1.0 (git 1a2b3c4d5e6f, dirty)"
std::string describe_version();

/// `text` with every absolute path in it replaced: relative to `folder` where it lies inside, else
/// "<path>", as everywhere where `folder` is the root. A path begins with the text or after a
/// blank, a quote, or one of ":,;=", and reaches to the next quote or one of ":,;". Text that
/// begins with "//" is part of an address.
std::string hide_paths(const std::string& text, const std::filesystem::path& folder);

}  // namespace zeropp::trace
