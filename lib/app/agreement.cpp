#include "lib/app/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/sha256.hpp"

namespace zeropp::app {
namespace {

/// "zero_optimization.stage (2, rank 0 has 3)" for every leaf that differs; what a side lacks is
/// "not set".
std::vector<std::string> differing_keys(const std::string& reference, const std::string& other) {
  const auto a = nlohmann::json::parse(reference).flatten();
  const auto b = nlohmann::json::parse(other).flatten();
  std::set<std::string> pointers;
  for (const auto& side : {a, b}) {
    for (const auto& [pointer, value] : side.items()) pointers.insert(pointer);
  }
  const auto show = [](const nlohmann::json& flat, const std::string& pointer) {
    return flat.contains(pointer) ? flat[pointer].dump() : std::string("not set");
  };
  std::vector<std::string> keys;
  for (const auto& pointer : pointers) {
    const std::string left = show(a, pointer);
    const std::string right = show(b, pointer);
    if (left == right) continue;
    std::string key = pointer.substr(pointer.find('/', 1) + 1);
    std::replace(key.begin(), key.end(), '/', '.');
    keys.push_back(fmt::format("{} ({}, rank 0 has {})", key, right, left));
  }
  return keys;
}

}  // namespace

std::string describe_differences(const std::vector<std::string>& all) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) ranks.push_back(rank);
  }
  if (ranks.empty()) return "";
  return fmt::format(
      "ranks were started with different configurations: rank {} {} not as rank 0; rank {} differs "
      "in {}; start all ranks with the same program, flags and file",
      fmt::join(ranks, ", "), ranks.size() == 1 ? "is" : "are", ranks.front(),
      fmt::join(differing_keys(all[0], all[ranks.front()]), ", "));
}

void agree_on_configuration(comm::Control& control, const std::string& own) {
  // Hashes alone travel as long as ranks agree.
  const std::string hash = control.broadcast(sha256_hex(own));
  std::vector<std::uint64_t> differ{hash == sha256_hex(own) ? std::uint64_t{0} : std::uint64_t{1}};
  control.all_reduce_sum(differ);
  if (differ[0] == 0) return;
  const auto all = control.gather(own);
  const std::string message =
      control.broadcast(control.rank() == 0 ? describe_differences(all) : "");
  throw comm::AgreedError(ExitCode::usage, message, 0);
}

}  // namespace zeropp::app
