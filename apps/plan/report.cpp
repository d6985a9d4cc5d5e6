// zpp_plan report: one HTML page about any set of traces. The page is made by
// zpp-validate html, which shares no code with the library: this command finds it and a
// Python, and becomes that process. Starts no MPI.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "apps/plan/commands.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace zeropp::plan_app {

namespace {

/// Beside the program, in an installation as in a build folder (apps/CMakeLists.txt).
std::filesystem::path script() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw Error(ExitCode::environment, "/proc/self/exe cannot be read: mount /proc");
  std::filesystem::path found =
      (program.parent_path() / ZEROPP_DATA_FROM_BIN / "zeropp/validation/zpp-validate")
          .lexically_normal();
  if (!std::filesystem::exists(found, error)) {
    throw Error(ExitCode::environment,
                fmt::format("{} is missing: install with cmake --install, which puts it there, or "
                            "call validation/zpp-validate html in the source tree",
                            found.string()));
  }
  return found;
}

/// Python interpreter: that of ZEROPP_PYTHON, else the one that the build found, else the first of
/// PATH.
std::string python() {
  if (const char* const named = std::getenv("ZEROPP_PYTHON")) return named;
  return ::access(ZEROPP_BUILD_PYTHON, X_OK) == 0 ? ZEROPP_BUILD_PYTHON : "python3";
}

}  // namespace

int run_report(int argc, char** argv) {
  log::set_program("zpp_plan");
  try {
    std::string interpreter = python();
    std::string page_maker = script().string();
    std::string command = "html";
    std::vector<char*> words{interpreter.data(), page_maker.data(), command.data()};
    words.insert(words.end(), argv + 1, argv + argc);
    words.push_back(nullptr);
    ::setenv("ZEROPP_PROGRAM", "zpp_plan report", 1);  // begins the script's messages
    ::execvp(words.front(), words.data());
    throw Error(
        ExitCode::environment,
        fmt::format("{} cannot be started: {}: install python3 with numpy, h5py, matplotlib, scipy "
                    "and jinja2, or name one in ZEROPP_PYTHON",
                    interpreter, std::strerror(errno)));
  } catch (const Error& error) {
    log::error(error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace zeropp::plan_app
