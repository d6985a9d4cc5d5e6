#include "lib/comm/mpi_check.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "lib/base/error.hpp"
#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {

void check(int mpi_status, std::source_location where) {
  if (mpi_status == MPI_SUCCESS) return;
  Watchdog::wait_for_verdict();
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(mpi_status, text.data(), &length);
  std::string line(text.data(), static_cast<std::size_t>(length));
  std::ranges::replace(line, '\n', ' ');  // MPICH adds the calls that led there, a line each
  throw Error(ExitCode::environment,
              fmt::format("MPI: {} (at {}:{}): look for a rank that ended early, or a fault of the "
                          "network",
                          line, std::filesystem::path(where.file_name()).filename().string(),
                          where.line()));
}

}  // namespace zeropp::comm
