#include "lib/zero/plan/guard_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace zeropp::zero {

namespace {

/// The digests of all ranks.
class Digests {
 public:
  Digests(const GuardSetting& setting, std::span<const std::uint64_t> words)
      : setting_(setting), words_(words) {}

  [[nodiscard]] std::uint64_t of(Seen what, std::size_t unit, std::size_t rank) const {
    const std::size_t slot = static_cast<std::size_t>(what) * setting_.units.size() + unit;
    return words_[rank * setting_.stride + kHeaderWords + slot];
  }
  [[nodiscard]] std::uint64_t header(Header word, std::size_t rank) const {
    return words_[rank * setting_.stride + static_cast<std::size_t>(word)];
  }

 private:
  const GuardSetting& setting_;
  std::span<const std::uint64_t> words_;
};

class Comparison {
 public:
  Comparison(const GuardSetting& setting, std::span<const std::uint64_t> words)
      : setting_(setting), digests_(setting, words) {}

  std::vector<Finding> run() {
    for (std::size_t u = 0; u < setting_.units.size(); ++u) {
      updates(u);
      if (setting_.has_left) {
        alone(Seen::at_rest, setting_.left, u,
              "master weights or moments of {} changed between two updates");
      }
    }
    for (std::size_t u = 0; u < setting_.units.size(); ++u) {
      among(Seen::at_rest, Header::shard, u,
            "master weights or moments of {} are not its replicas'");
      among(Seen::resident, kAll, u, "whole weights of {} are not the other ranks'");
      alone(Seen::own_part, Seen::own_shard, u, "gathered weights of {} do not have the own shard");
      among(Seen::gathered, kAll, u, "gathered weights of {} are not the other ranks'");
      if (setting_.cut[u]) {
        alone(Seen::cut, Seen::secondary, u, "hpZ's shard of {} is not what was cut for it");
      }
      among(Seen::secondary, Header::secondary, u, "hpZ's shard of {} is not the other nodes'");
      among(Seen::inside, kAll, u,
            "weights of {} gathered from hpZ's shards are not the other ranks'");
      among(Seen::gradients, Header::shard, u, "reduced gradients of {} are not the other ranks'");
    }
    // Certain findings explain the others.
    std::ranges::stable_partition(found_, &Finding::certain);
    return std::move(found_);
  }

 private:
  static constexpr std::optional<Header> kAll{};

  void add(fmt::string_view what, std::size_t unit, std::vector<int> ranks, bool certain) {
    found_.push_back({fmt::vformat(what, fmt::make_format_args(setting_.units[unit])),
                      std::move(ranks), certain});
  }

  void updates(std::size_t unit) {
    std::vector<int> wrong;
    for (std::size_t r = 0; r < setting_.ranks; ++r) {
      if (digests_.header(Header::wrong_update, r) == unit + 1)
        wrong.push_back(static_cast<int>(r));
    }
    if (!wrong.empty()) {
      add("the update of {} did not give what its optimizer computes", unit, std::move(wrong),
          true);
    }
  }

  /// Compares two digests of each rank.
  void alone(Seen one, Seen other, std::size_t unit, fmt::string_view what) {
    std::vector<int> wrong;
    for (std::size_t r = 0; r < setting_.ranks; ++r) {
      if (digests_.of(one, unit, r) != digests_.of(other, unit, r))
        wrong.push_back(static_cast<int>(r));
    }
    if (!wrong.empty()) add(what, unit, std::move(wrong), true);
  }

  /// Compares the digests of the ranks that share word `key` of their headers, or of all.
  void among(Seen seen, std::optional<Header> key, std::size_t unit, fmt::string_view what) {
    std::map<std::uint64_t, std::vector<int>> sharing;
    for (std::size_t r = 0; r < setting_.ranks; ++r)
      sharing[key ? digests_.header(*key, r) : 0].push_back(static_cast<int>(r));
    for (const auto& [number, ranks] : sharing) {
      std::map<std::uint64_t, std::vector<int>> holding;
      for (const int r : ranks)
        holding[digests_.of(seen, unit, static_cast<std::size_t>(r))].push_back(r);
      if (holding.size() == 1) continue;
      const auto most = std::ranges::max_element(
          holding, {}, [](const auto& each) { return each.second.size(); });
      if (2 * most->second.size() > ranks.size()) {
        std::vector<int> others;
        std::ranges::copy_if(ranks, std::back_inserter(others), [&](int r) {
          return std::ranges::find(most->second, r) == most->second.end();
        });
        add(what, unit, std::move(others), true);
      } else if (const std::vector<int> receivers = wrong_receivers(seen, unit);
                 !receivers.empty()) {
        add(what, unit, receivers, true);
      } else {
        add(what, unit, ranks, false);
      }
    }
  }

  /// Ranks, where two gathered different weights, that have the other rank's part otherwise than
  /// that rank itself, whose own part is its shard. Digests add up over parts.
  [[nodiscard]] std::vector<int> wrong_receivers(Seen seen, std::size_t unit) const {
    std::vector<int> wrong;
    if (seen != Seen::gathered || setting_.ranks != 2 || !setting_.one_group) return wrong;
    for (std::size_t r = 0; r < 2; ++r) {
      const std::uint64_t of_other =
          digests_.of(seen, unit, r) - digests_.of(Seen::own_part, unit, r);
      const std::uint64_t shard = digests_.of(Seen::own_shard, unit, 1 - r);
      if (shard == 0) return {};  // it was not digested
      if (digests_.of(Seen::own_part, unit, 1 - r) == shard && of_other != shard)
        wrong.push_back(static_cast<int>(r));
    }
    return wrong;
  }

  const GuardSetting& setting_;
  Digests digests_;
  std::vector<Finding> found_;
};

/// "rank 3", "ranks 0-2, 5".
std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string hosts_text(const std::vector<int>& ranks, std::span<const std::string> hosts) {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    if (static_cast<std::size_t>(rank) < hosts.size())
      names.push_back(hosts[static_cast<std::size_t>(rank)]);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", "));
}

}  // namespace

std::vector<Finding> findings_of(const GuardSetting& setting,
                                 std::span<const std::uint64_t> words) {
  return Comparison(setting, words).run();
}

std::string damage_line(std::uint64_t step, std::span<const Finding> findings,
                        std::span<const std::string> hosts) {
  const Finding& first = findings.front();
  const std::string more =
      findings.size() == 1 ? "" : fmt::format(", the first of {} differences", findings.size());
  return fmt::format(
      "step {} is damaged on {}{}{}: {}{}: take the host out of the job, test it with zpp_fabric "
      "and dcgmi diag -r 3, and resume from the last checkpoint",
      step, first.certain ? "" : "one of ", ranks_text(first.ranks), hosts_text(first.ranks, hosts),
      first.what, more);
}

}  // namespace zeropp::zero
