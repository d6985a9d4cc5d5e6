// Ranks that a World is made of, and what moves bytes between them: processes over MPI
// (mpi_rank_set.hpp), or threads of one process that take turns (virtual_ranks.hpp). Every function
// but the plain questions is collective over the ranks.
#pragma once

#include <memory>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/control.hpp"
#include "lib/comm/groups.hpp"

namespace zeropp::comm {

/// The ranks that share this machine.
struct Host {
  int ranks = 1;
  int leader = 0;            ///< the launched rank that stands for the machine: the lowest on it
  bool one_process = false;  ///< they are threads of one process
};

class RankSet {
 public:
  RankSet() = default;
  virtual ~RankSet() = default;
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  /// Rank as launched, which renumber() leaves as it is.
  [[nodiscard]] virtual int launched_rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const Host& host() const = 0;
  /// The control plane of the ranks, as they are numbered now.
  [[nodiscard]] virtual Control& control() = 0;
  /// Every rank's value, by launched rank.
  [[nodiscard]] virtual std::vector<int> all_gather(int value) = 0;
  /// Numbers the ranks by `key`, those of equal keys as launched.
  virtual void renumber(int key) = 0;
  /// The ranks with one `color`, in the order of control().
  [[nodiscard]] virtual std::unique_ptr<RankSet> split(int color) = 0;
  /// A group of the ranks with one `color`, which moves data by options.transport. `links`: the
  /// link class to every rank of the group. `lanes`: GroupOptions::rail_lanes, or 1. Throws
  /// Error(environment) where the transport cannot be had.
  [[nodiscard]] virtual std::unique_ptr<Communicator> make_communicator(
      const char* name, int color, std::vector<LinkClass> links, const GroupOptions& options,
      std::size_t lanes) = 0;
};

}  // namespace zeropp::comm
