// The interface of every collective algorithm. A collective is planned once (group, shape, codec)
// and run any number of times, one run in flight. It composes a Communicator (bytes) and a Codec
// (values); values of a run lie in memory of the caller, who lends `workspace` from start() until
// finish() returns. start() encodes and begins the transfer; finish() completes it, launching later
// hops in between. They may be given different streams, so that the next run's start does not wait
// for this one's later hops and decoding; the caller orders finish()'s stream after start()'s. All
// ranks of the groups start and finish their collectives in the same order. Results are sums, never
// means. Accumulation is fp32 in all algorithms but `native`. Source: design of qwZ (paper section
// 3.1) and qgZ (section 3.3). Workspace begins at a multiple of 16 bytes (a Buffer's does). Memory
// that does not fit the plan is a programming error: start() throws std::invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"
#include "lib/collective/description.hpp"
#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"
#include "lib/comm/groups.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/device/device.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::collective {

/// A chunk of the own part in a packed image: elements [first, first + length) of the part, whose
/// wire image of `bytes` bytes begins `offset` bytes after the begin of the packed image.
struct ImageChunk {
  std::size_t first = 0;
  std::size_t length = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Arguments of one run of a collective: its workspace, which is lent, and its purpose.
struct Run {
  std::span<std::byte> workspace;  ///< workspace_bytes() of the plan, until finish() returns
  StreamHandle stream;             ///< of start()
  std::uint64_t key =
      0;  ///< of the draws of codecs that round stochastically: on all ranks the same
  std::string_view phase{};  ///< of training: runs are counted by it in the trace
};

/// Every rank's part -> all parts on every rank: the same bits everywhere, since the own part goes
/// through the codec as well. `part` may lie inside `full`, at its own place.
class AllGather {
 public:
  virtual ~AllGather() = default;
  /// Starts the all-gather. `part`: parts.count elements of the plan's memory dtype or, without
  /// error feedback, of fp32, which are rounded to that dtype first. `full`: size * parts, strided,
  /// of the plan's result dtype.
  virtual void start(ConstView part, View full, const Run& run) = 0;
  /// Packed image of the own part: the wire images that start() makes of its chunks, one after the
  /// other, made outside of a run. Runs may start from it any number of times. Plans with error
  /// feedback, and those that gather parts as they lie in memory, have none: `image_chunks` is
  /// empty there, the others throw std::invalid_argument.
  [[nodiscard]] virtual std::vector<ImageChunk> image_chunks() const = 0;
  /// Encodes `part` into `image`, which begins at a multiple of 16 bytes; `part` and `key` as of
  /// start().
  virtual void encode_image(ConstView part, std::span<std::byte> image, StreamHandle stream,
                            std::uint64_t key) = 0;
  /// Starts the all-gather from a packed image, which stays as it is until the stream has come past
  /// this call: the bits of start() with the part and the key that it was encoded from. No draws.
  virtual void start_from_image(std::span<const std::byte> image, View full, const Run& run) = 0;
  /// Where runs have the images of the own part's chunks in their workspace: ImageChunk::offset
  /// counts from its begin. Empty where image_chunks() is.
  [[nodiscard]] virtual std::vector<ImageChunk> sent_chunks() const = 0;
  /// Starts the all-gather of images that lie at sent_chunks() of the workspace already, written by
  /// work before the stream's next: the bits of start() with the part and the key that they were
  /// encoded from. No draws. Throws std::invalid_argument where there are none.
  virtual void start_from_workspace(View full, const Run& run) = 0;
  virtual void finish(StreamHandle stream) = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  /// Closed form: bytes that this rank sends in one run.
  [[nodiscard]] virtual comm::Bytes volume() const = 0;
  /// Closed form: messages to other ranks that carry them, as they are given to a communicator,
  /// which may split them; of `modelled` algorithms those of a ring.
  [[nodiscard]] virtual Messages messages() const = 0;
  /// The trace row of the latest run; before the first one its keys, without a phase.
  [[nodiscard]] virtual const trace::CollectiveRow& row() const = 0;
};

/// Reduce-scatter: the sum over ranks of part r of everybody's `full` goes to `sum` on rank r, in
/// fp32.
class ReduceScatter {
 public:
  virtual ~ReduceScatter() = default;
  /// Starts the reduce-scatter. `full`: size strided parts in the memory dtype. `sum`: parts.count
  /// fp32 values, overwritten at the latest by finish().
  virtual void start(ConstView full, View sum, const Run& run) = 0;
  virtual void finish(StreamHandle stream) = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  [[nodiscard]] virtual comm::Bytes volume() const = 0;
  [[nodiscard]] virtual Messages messages() const = 0;
  [[nodiscard]] virtual const trace::CollectiveRow& row() const = 0;
};

/// Context that an algorithm plans with. `groups` and `recorder` outlive it. `group`: the
/// communicator to run on; hierarchical algorithms use groups.node and groups.rail and need group
/// == *groups.world. `device`: the one that the groups were made for; its kernels encode and
/// decode, and the memory of every run, workspace included, is its memory.
struct Context {
  comm::Groups& groups;
  comm::Communicator& group;
  trace::Recorder& recorder;
  Device device = Device::host();
};

/// Shapes of the ranks that a context's collectives run on.
Ranks ranks_of(const Context& context);

/// Registry entry: what an algorithm's file in all_gather/ or reduce_scatter/ defines, as the
/// object all_gather_STEM or reduce_scatter_STEM where STEM is the file's name (entries.hpp).
/// `name` is what users write.
struct AllGatherAlgorithm {
  std::string_view name;
  std::string_view summary;
  Traits traits;
  /// Closed form of a run's traffic, by the bytes of a part's wire image and the chunks that it is
  /// cut into.
  Traffic (*traffic)(const Ranks&, std::size_t part_bytes, std::size_t chunks);
  std::unique_ptr<AllGather> (*plan)(const Context&, const AllGatherPlan&);
};
struct ReduceScatterAlgorithm {
  std::string_view name;
  std::string_view summary;
  Traits traits;
  /// Ranks whose values a sum may hold that is encoded again on its way: where values travel in a
  /// type of small range, it has to have room for so many.
  std::size_t (*ranks_in_sums)(const comm::Topology&);
  /// Closed form of the collective that `plan` makes.
  Description (*describe)(const Ranks&, const ReduceScatterPlan&);
  std::unique_ptr<ReduceScatter> (*plan)(const Context&, const ReduceScatterPlan&);
};

/// The registered algorithms in name order.
const std::vector<const AllGatherAlgorithm*>& all_gather_algorithms();
const std::vector<const ReduceScatterAlgorithm*>& reduce_scatter_algorithms();

/// Throw Error(usage) for an unknown name, with the nearest known.
const AllGatherAlgorithm& find_all_gather(std::string_view algorithm);
const ReduceScatterAlgorithm& find_reduce_scatter(std::string_view algorithm);

/// Plans `algorithm`. Throws Error(usage) for an unknown name (with the nearest known), a codec
/// that is unknown or that the algorithm cannot carry, a depth of 0, a hierarchical algorithm on
/// another group than the world, error feedback for an algorithm without it; Error(environment) for
/// a hierarchical algorithm on nodes of unequal size (with the remedy).
std::unique_ptr<AllGather> plan_all_gather(std::string_view algorithm, const Context&,
                                           const AllGatherPlan&);
std::unique_ptr<ReduceScatter> plan_reduce_scatter(std::string_view algorithm, const Context&,
                                                   const ReduceScatterPlan&);

}  // namespace zeropp::collective
