#include "lib/comm/virtual_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/rank_order.hpp"
#include "lib/comm/rank_set.hpp"
#include "lib/comm/virtual_communicator.hpp"
#include "lib/comm/virtual_mail.hpp"

namespace zeropp::comm {

namespace {

/// The control plane of virtual ranks.
class VirtualControl final : public Control {
 public:
  explicit VirtualControl(VirtualMember member) : member_(std::move(member)) {}

  [[nodiscard]] int rank() const override { return static_cast<int>(member_.rank()); }
  [[nodiscard]] int size() const override { return static_cast<int>(member_.size()); }
  void barrier() override { (void)meet(0); }
  void all_reduce_sum(std::span<double> values) override { sum(values); }
  void all_reduce_sum(std::span<std::uint64_t> values) override { sum(values); }
  void all_reduce_max(std::span<double> values) override {
    take_maxima(joined(std::span<const double>(values)), values);
  }
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> part) override {
    return joined(part);
  }
  [[nodiscard]] std::vector<std::uint64_t> all_gather(
      std::span<const std::uint64_t> part) override {
    return joined(part);
  }
  [[nodiscard]] std::vector<std::string> gather(const std::string& part) override {
    auto all = meet(part);
    return rank() == 0 ? all : std::vector<std::string>{};
  }
  [[nodiscard]] std::string broadcast(const std::string& from_rank_0) override {
    return meet(rank() == 0 ? from_rank_0 : std::string())[0];
  }
  /// Every rank's value.
  template <class T>
  [[nodiscard]] std::vector<T> meet(T own) {
    const std::shared_ptr<Posts> posts = member_.post(std::move(own));
    member_.wait([&] { return std::ranges::all_of(*posts, &std::any::has_value); });
    std::vector<T> all;
    for (const std::any& post : *posts) all.push_back(std::any_cast<const T&>(post));
    return all;
  }

 private:
  template <class T>
  [[nodiscard]] std::vector<T> joined(std::span<const T> part) {
    std::vector<T> all;
    for (const auto& other : meet(std::vector<T>(part.begin(), part.end()))) {
      all.insert(all.end(), other.begin(), other.end());
    }
    return all;
  }
  template <class T>
  void sum(std::span<T> values) {
    const std::vector<T> all = joined(std::span<const T>(values));
    add_in_rank_order(std::span<const T>(all), values);
  }

  VirtualMember member_;
};

class VirtualRankSet final : public RankSet {
 public:
  explicit VirtualRankSet(const VirtualMember& member)
      : member_(member), host_{static_cast<int>(member.size()), 0, true}, control_(member) {}

  [[nodiscard]] int launched_rank() const override { return control_.rank(); }
  [[nodiscard]] int size() const override { return control_.size(); }
  [[nodiscard]] const Host& host() const override { return host_; }
  [[nodiscard]] Control& control() override { return control_; }
  [[nodiscard]] std::vector<int> all_gather(int value) override { return control_.meet(value); }
  /// Nodes are of ranks that follow each other: their order is the launched one.
  void renumber(int /*key*/) override {}
  [[nodiscard]] std::unique_ptr<RankSet> split(int color) override {
    return std::make_unique<VirtualRankSet>(part_of("ranks", color));
  }
  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(const char* name, int color,
                                                                std::vector<LinkClass> links,
                                                                const GroupOptions& options,
                                                                std::size_t /*lanes*/) override {
    if (options.transport != Transport::memory) {
      throw Error(ExitCode::usage,
                  fmt::format("virtual ranks move data in memory, not over {}: leave the transport "
                              "out",
                              enum_name(options.transport)));
    }
    return std::make_unique<VirtualCommunicator>(name, part_of(name, color), std::move(links),
                                                 options.device);
  }

 private:
  [[nodiscard]] VirtualMember part_of(const char* what, int color) {
    const std::vector<int> colors = all_gather(color);
    std::vector<std::size_t> members;
    std::size_t rank = 0;
    for (std::size_t r = 0; r < colors.size(); ++r) {
      if (r == member_.rank()) rank = members.size();
      if (colors[r] == color) members.push_back(member_.members()[r]);
    }
    return {member_.mail(), fmt::format("{}/{} {}.{}", member_.group(), what, ++parts_, color),
            std::move(members), rank};
  }

  VirtualMember member_;
  Host host_;
  VirtualControl control_;
  int parts_ = 0;  ///< made of this set so far
};

}  // namespace

std::shared_ptr<Posts> VirtualMail::post(const std::string& group, std::uint64_t number,
                                         std::size_t size, std::size_t rank, std::any own) {
  const auto place = open_.try_emplace({group, number}).first;
  Operation& operation = place->second;
  if (!operation.posts) operation = {std::make_shared<Posts>(size), size};
  std::shared_ptr<Posts> posts = operation.posts;
  (*posts)[rank] = std::move(own);
  if (--operation.missing == 0) open_.erase(place);
  return posts;
}

VirtualRanks::VirtualRanks(int count)
    : count_(count),
      turns_(static_cast<std::size_t>(count)),
      mail_(std::make_unique<VirtualMail>(turns_)) {}

VirtualRanks::~VirtualRanks() = default;

void VirtualRanks::run(const std::function<void(World&)>& body) {
  std::vector<std::size_t> all;
  for (int rank = 0; rank < count_; ++rank) all.push_back(static_cast<std::size_t>(rank));
  const bool muted = log::is_muted();
  turns_.run([&](std::size_t rank) {
    log::set_muted(muted || rank > 0);
    World world(std::make_unique<VirtualRankSet>(VirtualMember(*mail_, "world", all, rank)));
    body(world);
  });
}

}  // namespace zeropp::comm
