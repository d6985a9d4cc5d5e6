#include "apps/sweep/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace zeropp::sweep {

std::uint64_t Outcome::out_of_bounds() const {
  std::uint64_t sum = 0;
  for (const Row& row : rows) {
    sum += row.out_of_place.nwrong.value_or(0) + row.in_place.nwrong.value_or(0);
  }
  return sum;
}

std::vector<WayBandwidth> Outcome::bus_bandwidths() const {
  const auto key = [](const auto& of) {
    return std::tie(of.collective, of.codec, of.algorithm, of.group);
  };
  std::vector<WayBandwidth> ways;
  std::vector<std::size_t> measurements;
  for (const Row& row : rows) {
    const auto known =
        std::ranges::find_if(ways, [&](const auto& way) { return key(way) == key(row); });
    const auto place = static_cast<std::size_t>(known - ways.begin());
    if (known == ways.end()) {
      ways.push_back({row.collective, row.codec, row.algorithm, row.group});
      measurements.push_back(0);
    }
    ways[place].mean += row.out_of_place.bus_bw + row.in_place.bus_bw;
    measurements[place] += 2;
  }
  for (std::size_t i = 0; i < ways.size(); ++i)
    ways[i].mean /= static_cast<double>(measurements[i]);
  return ways;
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
