#include "lib/app/sum_over_ranks.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace zeropp::app {
namespace {

using nlohmann::json;

/// Keys that say what a row is about, without what is summed.
json keys_of(const std::deque<trace::CollectiveRow>& rows) {
  json keys = json::array();
  for (const trace::CollectiveRow& row : rows) {
    keys.push_back({row.operation, row.purpose, row.phase, row.algorithm, row.codec, row.group,
                    row.path, row.modelled, row.calls});
  }
  return keys;
}

/// Reason why `own` cannot be added to `reference`, rank 0's; nothing where it can.
std::optional<Error> difference(const json& own, const json& reference, int rank) {
  if (own == reference) return std::nullopt;
  std::size_t row = 0;
  while (row < own.size() && row < reference.size() && own[row] == reference[row]) ++row;
  const auto show = [row](const json& rows) {
    return row < rows.size() ? rows[row].dump() : std::string("no such row");
  };
  return Error(ExitCode::check_failed,
               fmt::format("rank {} ran other collectives than rank 0: row {} is {}, not {}; this "
                           "is a defect of the program, report it with the command line",
                           rank, row, show(own), show(reference)));
}

}  // namespace

std::vector<trace::CollectiveRow> sum_over_ranks(const std::deque<trace::CollectiveRow>& rows,
                                                 comm::Control& control) {
  const json own = keys_of(rows);
  const json reference = json::parse(control.broadcast(own.dump()));
  control.agree(difference(own, reference, control.rank()));

  std::vector<trace::CollectiveRow> summed(rows.begin(), rows.end());
  // Rows that were planned, and never needed, are dropped.
  std::erase_if(summed, [](const trace::CollectiveRow& row) { return row.calls == 0; });
  for (trace::CollectiveRow& row : summed) {
    std::array<std::uint64_t, 3> bytes{row.logical_bytes, row.wire_bytes_intra,
                                       row.wire_bytes_inter};
    control.all_reduce_sum(bytes);
    row.logical_bytes = bytes[0];
    row.wire_bytes_intra = bytes[1];
    row.wire_bytes_inter = bytes[2];
    std::array<double, 1> seconds{row.seconds};
    control.all_reduce_max(seconds);
    row.seconds = seconds[0];
  }
  return summed;
}

}  // namespace zeropp::app
