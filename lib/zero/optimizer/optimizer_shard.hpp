// A part of the optimizer: fp32 master weights and what the optimizer keeps for them (none, one or
// two moments: AdamW's, SGD's momentum; in fp32, bf16 or 8 bits), by unit. A rank updates
// everything at stage 0 (replicated), else its shard (OwnedShard); of that, this is what lies in
// one memory. Owns its memory, where ranges bring none of theirs, and the table of the pieces that
// the optimizer goes over; the gradients, and the 16-bit weights that follow the master, are
// others'. Runs on the stream that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/stream.hpp"
#include "lib/device/table.hpp"
#include "lib/device/workers.hpp"
#include "lib/zero/optimizer/kept_moment.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

/// Memory that a step reads and writes beside the optimizer's own state: consecutive elements of a
/// unit, at the same place in every step.
struct UpdateRange {
  View gradient;       ///< fp32: the sum over ranks and micro-steps
  View compute_shard;  ///< 16-bit weights that follow the master, of one dtype in all units; or
                       ///< empty
  /// Master and moments of the range, where they lie while it is updated; empty: in this object's
  /// memory.
  View master = {};
  std::vector<KeptMoment> moments = {};
};

/// Elements of a unit that this rank updates and that lie here. Either all ranges of a unit have
/// arrays, or none has.
struct UnitArrays {
  Extent extent;
  std::vector<UpdateRange> ranges;  ///< one after the other they are the extent
};

/// A chunk of the wire image of a unit's weights: of elements of the extent, one piece of an image
/// by itself. The memory is others'.
struct ImageRange {
  Extent elements;
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
  std::size_t padding = 0;  ///< bytes after the scales
};

/// The optimizer of a rank, wherever its arrays lie. The references are read in constructors alone.
struct OptimizerSetup {
  const std::vector<Unit>& units;
  const std::vector<UnitPartition>& partitions;  ///< of the units
  OwnedShard owned;                              ///< the part of every unit that the rank updates
  std::uint64_t seed;                            ///< of initial weights and of stochastic rounding
  const optim::Options& options;
};

/// Where an OptimizerShard's own arrays lie, and what makes and updates them.
struct ShardPlace {
  const Device& device;          ///< that updates run on; read in the constructor alone
  MemoryKind memory;             ///< of the arrays
  StreamHandle stream;           ///< that the initial values are made on
  Workers workers = Workers(1);  ///< that make them, where the host both runs and holds them
};

class OptimizerShard {
 public:
  /// Master weights are drawn element by element (same values at any world size), on place.stream;
  /// the optimizer's state is zero; in arrays of others, by initialize(). `arrays`: by unit. Throws
  /// Error(environment) when there is no memory.
  OptimizerShard(const OptimizerSetup& setup, std::span<const UnitArrays> arrays,
                 const ShardPlace& place);

  /// Draws the initial weights of a part of the extent into `master`; elements that no tensor
  /// covers are left as they are.
  void initialize(const std::vector<Unit>& units, std::size_t unit, const Extent& part,
                  const View& master, StreamHandle stream) const;

  /// Elements of the unit that this rank updates and that lie here.
  [[nodiscard]] const Extent& extent(std::size_t unit) const { return units_[unit].extent; }
  /// Master weights, fp32, extent().count elements; these and the states, where they lie in this
  /// object's memory.
  [[nodiscard]] View master(std::size_t unit) const {
    return units_[unit].master.view(units_[unit].extent.count, Dtype::fp32);
  }
  /// Number of moments that the optimizer keeps, and how.
  [[nodiscard]] std::size_t states() const { return rule_.states; }
  [[nodiscard]] optim::Moments moments() const { return options_.moments; }
  [[nodiscard]] optim::Kept kept() const { return {states(), moments()}; }
  /// Whether a moment can be negative.
  [[nodiscard]] bool is_signed(std::size_t index) const { return rule_.is_signed[index]; }
  /// A moment of extent().count elements, where it lies in this object's memory.
  [[nodiscard]] KeptMoment moment(std::size_t unit, std::size_t index) const;

  /// Master weights and moments as they lie in this object's memory, a moment with its scales;
  /// empty where they lie elsewhere.
  [[nodiscard]] std::vector<View> arrays(std::size_t unit) const;

  /// Learning rate of step t.
  [[nodiscard]] double learning_rate(std::uint64_t t) const {
    return optim::learning_rate(options_, t);
  }

  /// Step t (1, 2, ...) of one unit, in one launch: with gradient_scale * gradient, clipped by the
  /// factor `clip`. The unit's compute_shard is rounded from the new master.
  void update(std::size_t unit, std::uint64_t t, float gradient_scale, double clip,
              StreamHandle stream) const;
  /// Runs update() for one range alone, and of that for part `index` of `parts`, which may run side
  /// by side.
  void update_part(std::size_t unit, std::size_t range, std::size_t index, std::size_t parts,
                   std::uint64_t t, float gradient_scale, double clip, StreamHandle stream) const;

  /// Runs update() on the host, for a range of a unit whose arrays all lie there and that begins at
  /// element `begin` of the extent. `layout`: as the constructor was given it.
  void update_on_host(const Unit& layout, std::size_t unit, std::size_t begin,
                      const UpdateRange& range, std::uint64_t t, float gradient_scale,
                      double clip) const;

  /// Whether update_image() can be: this optimizer updates and encodes in one pass here.
  [[nodiscard]] bool encodes() const { return rule_.tiles_on(device_.memory) != nullptr; }
  /// Prepares updates of a unit that write the image of its new weights too; `ranges` are the
  /// extent, cut at blocks of the codec. `layout` and `arrays`: those of the unit that the
  /// constructor was given, in this object's memory. Returns the number that update_image() takes.
  /// Throws Error(environment) when there is no memory.
  std::size_t add_image(const Unit& layout, std::size_t unit, const UnitArrays& arrays,
                        const optim::ImageFormat& format, std::span<const ImageRange> ranges);
  /// Runs update() of the image's unit, and writes the image: the bytes that encoding the new
  /// master would give.
  void update_image(std::size_t image, std::uint64_t t, float gradient_scale, double clip,
                    StreamHandle stream) const;

  [[nodiscard]] std::size_t master_bytes() const;
  [[nodiscard]] std::size_t state_bytes() const;
  /// Bytes of the tables that update_image() goes over.
  [[nodiscard]] std::size_t image_table_bytes() const;

 private:
  /// The ranges of a unit, as indices into pieces_.
  struct Pieces {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  struct State {
    Extent extent;
    Buffer master;
    std::vector<Buffer> states;
    std::vector<Pieces> ranges;
    std::uint64_t number = 0;  ///< of its first element among those of all units
  };
  struct Image {
    optim::ImageFormat format;
    Table<optim::UpdatePiece> pieces;
    Table<optim::ImageTile> tiles;
  };
  /// Calls body(tensor, first element in the tensor, first element of the extent, elements) for
  /// each tensor of which something lies in `part` of the extent.
  template <class Body>
  void for_each_tensor(const Unit& layout, std::size_t unit, const Extent& part,
                       const Body& body) const;
  /// Appends the pieces of a unit to the pieces of the units before it.
  void add_pieces(const Unit& layout, std::size_t unit, const UnitArrays& arrays,
                  std::vector<optim::UpdatePiece>& pieces);
  /// Appends the pieces of a range that begins at element `begin` of the extent.
  void add_pieces(const Unit& layout, std::size_t unit, std::size_t begin, const UpdateRange& range,
                  std::vector<optim::UpdatePiece>& pieces) const;
  /// `count` elements of a range that begins at element `begin` of the extent, from element `at` of
  /// the extent on, which is element `in_tensor` of the tensor.
  [[nodiscard]] optim::UpdatePiece piece_of(const UpdateRange& range, std::size_t begin,
                                            std::size_t unit, const Tensor& tensor,
                                            std::size_t in_tensor, std::size_t at,
                                            std::size_t count) const;
  [[nodiscard]] optim::Step step_of(std::uint64_t t, float gradient_scale, double clip) const;
  /// Throws std::invalid_argument where moments need more of what they are cut at.
  void require_whole_blocks(std::size_t elements) const;
  /// Adds a moment from its element `at` on to a piece.
  void add_moment(const KeptMoment& moment, std::size_t index, std::size_t at,
                  optim::UpdatePiece& piece) const;
  void run(const Pieces& pieces, std::uint64_t t, float gradient_scale, double clip,
           StreamHandle stream) const;

  std::vector<UnitPartition> partitions_;
  OwnedShard owned_;
  std::uint64_t seed_;
  optim::Options options_;
  optim::Variant rule_;
  ComputeDevice device_;
  Workers workers_;
  std::vector<State> units_;
  Dtype compute_dtype_ = Dtype::fp32;  ///< fp32: there are none
  Table<optim::UpdatePiece> pieces_;
  std::vector<Image> images_;
};

}  // namespace zeropp::zero
