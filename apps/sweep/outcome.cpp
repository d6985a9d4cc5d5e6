#include "apps/sweep/outcome.hpp"

#include <fmt/format.h>

#include <set>

namespace zeropp::sweep {

std::uint64_t Outcome::out_of_bounds() const {
  std::uint64_t sum = 0;
  for (const Row& row : rows) {
    sum += row.out_of_place.nwrong.value_or(0) + row.in_place.nwrong.value_or(0);
  }
  return sum;
}

double Outcome::average_bus_bandwidth() const {
  if (rows.empty()) return 0;
  double sum = 0;
  for (const Row& row : rows) sum += row.out_of_place.bus_bw + row.in_place.bus_bw;
  return sum / static_cast<double>(2 * rows.size());
}

std::vector<std::string> Outcome::first_findings() const {
  std::set<std::size_t> heard;
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    if (heard.insert(finding.rank).second) lines.push_back(finding.text);
  }
  return lines;
}

std::size_t Outcome::invalid() const {
  std::size_t sum = 0;
  for (const Row& row : rows) sum += !row.out_of_place.valid() + !row.in_place.valid();
  return sum;
}

std::string Outcome::verdict() const {
  for (const Row& row : rows) {
    for (const Measurement* m : {&row.out_of_place, &row.in_place}) {
      if (m->valid()) continue;
      return fmt::format("INVALID: {} measurements, {} {} {} of {} bytes: {}", invalid(),
                         row.collective, row.codec, row.algorithm, row.size,
                         m->verdict.substr(sizeof("INVALID:")));
    }
  }
  if (ended.empty()) return "VALID";
  return fmt::format("INVALID: {} after {} rows", ended, rows.size());
}

}  // namespace zeropp::sweep
