// Teams: the job's ranks cut into groups of equal size that take runs side by side. Ranks of a
// team follow each other, so that they share a node wherever they can.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "lib/app/app.hpp"

namespace zeropp::converge {

/// Ranks of a run.
struct RunRanks {
  std::size_t ranks = 0;          ///< the first ranks of the team, which take part
  std::size_t virtual_ranks = 0;  ///< that the one rank which takes part runs; 0: none
  std::size_t node_size = 0;      ///< 0: nodes as found
};

class Team {
 public:
  /// `ranks`: size of a team; 0: all ranks are one team. Collective over the context's world, which
  /// outlives this. Throws Error(usage), the same on all ranks, where `ranks` does not divide them.
  Team(const app::Context& context, std::size_t ranks);

  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] comm::Control& control() const { return world_->control(); }

  /// Runs `work` on ranks of the team as a world. Collective over the team; where `work` ends with
  /// AgreedError, all ranks of the team do.
  void with_context(const RunRanks& ranks,
                    const std::function<void(const app::Context&)>& work) const;

 private:
  void work_in(comm::World& world, const RunRanks& ranks,
               const std::function<void(const app::Context&)>& work) const;
  /// GPUs of the ranks of a run.
  [[nodiscard]] std::vector<int> gpus_of(const RunRanks& ranks) const;

  const app::Context& job_;
  std::size_t ranks_;
  std::size_t count_;
  std::size_t index_ = 0;
  std::unique_ptr<comm::World> world_;
  std::vector<config::Option> no_options_;  ///< a run's configuration comes from the matrix
};

}  // namespace zeropp::converge
