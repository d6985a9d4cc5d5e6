// Measures links and rails through a communicator, whatever transport it has. All ranks of the
// group make the same number of exchanges, also those that have no peer in a round: MPI numbers
// them. Timed on the host between two synchronizations of the stream, until a time is up that is
// longer than the time slices of an operating system: on a busy machine some repetitions run
// undisturbed.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "apps/fabric/map.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/comm/control.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp::fabric {

inline constexpr std::size_t kSmallMessage = 8;  // bytes

class LinkBench {
 public:
  /// Memory for messages of `bytes` between two, and of `rail_bytes` in all of a rail (multiples of
  /// 8), once to send and once to receive. `control`: of the world. Everything outlives this.
  LinkBench(comm::Control& control, const Device& device, const Stream& stream, std::size_t bytes,
            std::size_t rail_bytes);

  /// Runs one round on `group`: measures this rank's link to `peer` if `begins`, else gives the
  /// answers that `peer` needs to measure its own; -1: nobody. Returns what this rank measured:
  /// nothing of an answer but what arrived damaged.
  Link meet(comm::Communicator& group, int peer, bool begins);

  /// Measures all-reduces of `pair`, this rank and `peer`; -1: nobody. Returns what this rank saw,
  /// with the words that are not the sum.
  Link all_reduce(comm::Communicator& pair, int peer);

  /// Measures the link to itself. Called by every rank of `group` at once.
  Link copy_own(comm::Communicator& group);

  /// Exchanges with all others of `rail` at once, `bytes` from each rank together. `members`: ranks
  /// of the world by rank of the rail. Adds the words that arrive damaged to corrupted[member].
  RailLoad load_rail(comm::Communicator& rail, const std::vector<int>& members, std::size_t bytes,
                     std::vector<double>& corrupted);

 private:
  using Sends = std::vector<comm::Send>;
  using Receives = std::vector<comm::Receive>;

  void exchange(comm::Communicator& group, const Sends& sends, const Receives& receives);
  /// Times what both ends do at once, with a small and a large message, after a first run of each
  /// into poisoned memory. Collective over the world.
  Link repeat(const std::function<void()>& small, const std::function<void()>& large);
  /// Seconds of one of `count` runs of `run`, in each of as many repetitions as the ranks agree on.
  /// Collective over the world.
  std::vector<double> time(std::size_t count, const std::function<void()>& run) const;
  void poison();
  /// Words of [first, first + bytes) that are not expected(place).
  template <class Expected>
  std::size_t damaged(Expected expected, std::size_t first, std::size_t bytes);

  comm::Control& control_;
  int rank_;
  const Device& device_;
  const Stream& stream_;
  std::size_t bytes_;
  Buffer out_;
  Buffer in_;
  Buffer small_out_;
  Buffer small_in_;
  std::vector<std::array<float, 2>> words_;  ///< on the host
};

}  // namespace zeropp::fabric
