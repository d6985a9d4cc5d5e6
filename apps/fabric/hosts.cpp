#include "apps/fabric/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace zeropp::fabric {

namespace {

using Matrix = std::vector<std::vector<bool>>;

/// Branch and bound over sets of at most 64 vertices, as bits.
class LargestSet {
 public:
  explicit LargestSet(const Matrix& bad, const std::vector<std::size_t>& vertices)
      : neighbours_(vertices.size(), 0) {
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      for (std::size_t j = 0; j < vertices.size(); ++j) {
        if (i != j && bad[vertices[i]][vertices[j]]) neighbours_[i] |= bit(j);
      }
    }
  }

  std::uint64_t find() {
    const std::size_t count = neighbours_.size();
    search(count == 64 ? ~std::uint64_t{0} : bit(count) - 1, 0);
    return best_;
  }

 private:
  static std::uint64_t bit(std::size_t place) { return std::uint64_t{1} << place; }

  void search(std::uint64_t open, std::uint64_t taken) {
    for (;;) {
      if (std::popcount(open) + std::popcount(taken) <= std::popcount(best_)) return;
      if (open == 0) {
        best_ = taken;
        return;
      }
      std::size_t most = 0;
      int most_degree = -1;
      bool took = false;
      for (std::uint64_t rest = open; rest != 0; rest &= rest - 1) {
        const auto vertex = static_cast<std::size_t>(std::countr_zero(rest));
        const int degree = std::popcount(neighbours_[vertex] & open);
        if (degree <= 1) {  // some largest set has it
          taken |= bit(vertex);
          open &= ~(bit(vertex) | neighbours_[vertex]);
          took = true;
          break;
        }
        if (degree > most_degree) {
          most = vertex;
          most_degree = degree;
        }
      }
      if (took) continue;
      search(open & ~(bit(most) | neighbours_[most]), taken | bit(most));
      open &= ~bit(most);
    }
  }

  std::vector<std::uint64_t> neighbours_;
  std::uint64_t best_ = 0;
};

bool fits(const Matrix& bad, const std::vector<std::size_t>& members, std::size_t vertex) {
  return std::ranges::none_of(members, [&](std::size_t member) { return bad[vertex][member]; });
}

std::vector<std::size_t> greedy_set(const Matrix& bad, std::vector<std::size_t> vertices) {
  std::vector<std::size_t> left_out;
  for (;;) {
    std::size_t most = 0;
    std::size_t worst = 0;
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      const auto degree =
          static_cast<std::size_t>(std::ranges::count_if(vertices, [&](std::size_t other) {
            return other != vertices[i] && bad[vertices[i]][other];
          }));
      if (degree < most) continue;
      most = degree;
      worst = i;
    }
    if (most == 0) break;
    left_out.push_back(vertices[worst]);
    vertices.erase(vertices.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  for (const std::size_t vertex : left_out) {
    if (fits(bad, vertices, vertex)) vertices.push_back(vertex);
  }
  return vertices;
}

/// Numbers of the hosts by rank; `names`: of the hosts, in the order of ranks.
std::vector<std::size_t> numbers_of(const std::vector<std::string>& hosts,
                                    std::vector<std::string>& names) {
  std::vector<std::size_t> numbers;
  for (const std::string& host : hosts) {
    const auto found = std::ranges::find(names, host);
    numbers.push_back(static_cast<std::size_t>(found - names.begin()));
    if (found == names.end()) names.push_back(host);
  }
  return numbers;
}

}  // namespace

HostSet largest_good_set(const Matrix& bad) {
  HostSet set;
  std::vector<std::size_t> disputed;
  for (std::size_t host = 0; host < bad.size(); ++host) {
    if (bad[host][host]) continue;
    bool joined = false;
    for (std::size_t other = 0; other < bad.size(); ++other) {
      joined = joined || (bad[host][other] && !bad[other][other]);
    }
    (joined ? disputed : set.members).push_back(host);
  }
  set.exact = disputed.size() <= kExactHosts;
  if (set.exact) {
    for (std::uint64_t rest = LargestSet(bad, disputed).find(); rest != 0; rest &= rest - 1) {
      set.members.push_back(disputed[static_cast<std::size_t>(std::countr_zero(rest))]);
    }
  } else {
    const auto kept = greedy_set(bad, disputed);
    set.members.insert(set.members.end(), kept.begin(), kept.end());
  }
  std::ranges::sort(set.members);
  return set;
}

Hosts sort_hosts(const FabricMap& map, const Judgement& judgement,
                 const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  const std::vector<std::size_t> number = numbers_of(hosts, names);
  Matrix bad(names.size(), std::vector<bool>(names.size(), false));
  const auto mark = [&](std::size_t a, std::size_t b) {
    bad[number[a]][number[b]] = true;
    bad[number[b]][number[a]] = true;
  };
  for (const auto& [from, to] : judgement.suspects) mark(from, to);
  for (const auto& [low, high] : map.unmeasured()) mark(low, high);
  for (const Fault& fault : judgement.faults) {
    if (fault.kind != Fault::Kind::corrupted) continue;
    mark(static_cast<std::size_t>(fault.first), static_cast<std::size_t>(fault.second));
  }
  const auto is_of = [&](const std::string& host) {
    return [&](const Fault& fault) {
      return fault.kind != Fault::Kind::rail &&
             (hosts[static_cast<std::size_t>(fault.first)] == host ||
              (fault.second >= 0 && hosts[static_cast<std::size_t>(fault.second)] == host));
    };
  };
  const HostSet set = largest_good_set(bad);
  Hosts sorted{.good = {}, .bad = {}, .exact = set.exact};
  for (std::size_t host = 0; host < names.size(); ++host) {
    if (std::ranges::binary_search(set.members, host)) {
      sorted.good.push_back(names[host]);
      continue;
    }
    const auto fault = std::ranges::find_if(judgement.faults, is_of(names[host]));
    const bool faulty = fault != judgement.faults.end();
    sorted.bad.push_back({names[host],
                          faulty ? describe(*fault, hosts) : "not all of its links were measured",
                          faulty});
  }
  return sorted;
}

std::string drain_command(const BadHost& bad) {
  return fmt::format(R"(scontrol update nodename={} state=drain reason="zpp_fabric: {}")", bad.host,
                     bad.reason);
}

}  // namespace zeropp::fabric
