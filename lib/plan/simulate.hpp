// Executes a schedule on paper: the engine's streams, waits, and collectives that start on one
// stream and end on another, with the time that each operation takes alone, and resources that
// concurrent operations share. Pure functions; seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/zero/plan/schedule.hpp"

namespace zeropp::plan {

/// Resource that an operation occupies. `host`: processors and memory of the host; `host_link`: the
/// link of a GPU to the host; `copies`: links of the node that copy engines drive. `none`:
/// latencies, which nothing shares.
enum class Resource : std::uint8_t { gpu, node_links, copies, rails, host, host_link, none };
inline constexpr std::size_t kResources = 7;

/// A part of an operation: it takes `seconds` when nothing else wants its resource.
struct Stage {
  Resource resource = Resource::none;
  double seconds = 0;
  /// Resource that it occupies at the same time, for `beside_share` of that time, 0 to 1: for a
  /// transfer over both kinds of links, the links that do not pace it.
  Resource beside = Resource::none;
  double beside_share = 0;
};

/// Stages of an operation, one after the other.
class Stages {
 public:
  /// Parts that take no time are left out. Throws std::length_error beyond the few that an
  /// operation has.
  void add(const Stage& stage);
  void add(Resource resource, double seconds) { add(Stage{resource, seconds}); }
  [[nodiscard]] const Stage* begin() const { return stages_.data(); }
  [[nodiscard]] const Stage* end() const { return stages_.data() + count_; }
  [[nodiscard]] double seconds() const;

 private:
  std::array<Stage, 8> stages_{};
  std::size_t count_ = 0;
};

struct OpCost {
  Stages start;   ///< on the operation's stream
  Stages finish;  ///< of a collective, on the stream that it ends on
  /// Pieces that a collective is cut into, one after the other: while one is in `finish`, the next
  /// is in `start`. The stages are those of one piece.
  std::size_t pieces = 1;
};

/// How concurrent parts share the resources.
struct Sharing {
  /// By resource: how many parts of demand 1 run as fast as alone, at least 1. More parts share the
  /// width evenly, except parts that want less than an even share.
  std::array<double, kResources> width{1, 1, 1, 1, 1, 1, 1};
  /// By resource: the share of its pool's width that a part takes when it runs as fast as alone;
  /// above 0, at most that width.
  std::array<double, kResources> demand{1, 1, 1, 1, 1, 1, 1};
  /// By resource: the resource whose width its parts share with that resource's own parts.
  std::array<Resource, kResources> pool{Resource::gpu,   Resource::node_links, Resource::node_links,
                                        Resource::rails, Resource::host,       Resource::host_link,
                                        Resource::none};
  /// By resource: the share of the GPU that its parts take while they run, 0 to 1, the same for one
  /// part and for many. A part that also occupies other links takes its share of both, and counts
  /// with the larger one.
  std::array<double, kResources> gpu_share{};
  /// Seconds that a kernel of another stream waits for the kernels of layers, which hold all
  /// multiprocessors until they end.
  double kernel_wait = 0;
};

/// One operation in time, seconds from the begin of the schedule.
struct Span {
  double begin = 0;    ///< of its start
  double started = 0;  ///< its start is done; its later hops may follow
  double end = 0;      ///< its result is there
};

struct Timeline {
  std::vector<Span> spans;  ///< by operation
  double seconds = 0;       ///< from the first begin to the last end
  double compute = 0;       ///< the compute stream works on the GPU
  /// By resource: seconds in which compute waits and this is the slowest busy resource: rails
  /// before the host, its links, links of the node and kernels. `none`: latencies.
  std::array<double, kResources> exposed{};
  std::array<double, kResources> busy{};

  [[nodiscard]] double exposed_seconds() const;
};

/// `costs`, by operation. `overlap` false: each operation waits for all before it. Throws
/// std::invalid_argument when costs do not match, or an operation waits for a later one.
Timeline simulate(const zero::Schedule& schedule, const std::vector<OpCost>& costs,
                  const Sharing& sharing, bool overlap = true);

}  // namespace zeropp::plan
