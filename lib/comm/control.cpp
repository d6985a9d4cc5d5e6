#include "lib/comm/control.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

namespace zeropp::comm {

void Control::agree(const std::optional<Error>& status) {
  std::array<std::uint64_t, 1> failures{status ? 1U : 0U};
  all_reduce_sum(failures);
  if (failures[0] == 0) return;

  // "CODE message" from every rank that failed, "" from the others; rank 0 passes on the first.
  const auto reports =
      gather(status ? fmt::format("{} {}", static_cast<int>(status->code()), status->what()) : "");
  std::string verdict;
  for (std::size_t reporter = 0; reporter < reports.size() && verdict.empty(); ++reporter) {
    if (!reports[reporter].empty()) verdict = fmt::format("{} {}", reporter, reports[reporter]);
  }
  verdict = broadcast(verdict);
  char* rest = nullptr;
  const auto reporter = static_cast<int>(std::strtol(verdict.c_str(), &rest, 10));
  const auto code = static_cast<ExitCode>(std::strtol(rest, &rest, 10));
  throw AgreedError(code, rest + 1, reporter);
}

}  // namespace zeropp::comm
