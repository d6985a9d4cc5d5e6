// An engine's part of a checkpoint, and how an engine goes on from it. A checkpoint has the fp32
// master weights and the optimizer's moments of every unit, as arrays "UNIT/master", "UNIT/state0",
// ... in the layout of the unit's flat buffer. At every stage a rank saves its canonical shard of
// them, so that any number of ranks can read them. Moments are saved in the form in which a run
// keeps them: in fp32, as "UNIT/state0/bf16", or as "UNIT/state0/int8" with one scale for each
// block of the flat buffer in "UNIT/state0/scales". The copies that weight differences are added to
// (kept_copies.hpp), error feedback's errors, which only the same ranks can use, and the widths of
// adaptive bits, which rank 0 saves, are arrays of their own. Owns nothing; reads and writes the
// arrays of others on the compute stream. A run is restored before its first step. Throws Error(io)
// where a file cannot be read or written.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/checkpoint/saver.hpp"
#include "lib/device/buffer.hpp"
#include "lib/zero/communication/gradient_errors.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/kept_copies.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/quantization/adaptive_bits.hpp"

namespace zeropp::zero {

/// Is called with a slice of arrays and its values in the host's memory.

/// What of a checkpoint a run goes on from. What a run does not keep counts as gone on from.
struct Restored {
  bool moments = true;  ///< as they were saved; false: rounded to how this run keeps moments
  /// Error feedback's errors, of the same ranks, nodes, algorithm, buckets and storage; false:
  /// error feedback begins anew.
  bool errors = true;
  /// Copies that weight differences are added to; false: the next step sends whole weights.
  bool copies = true;
  /// Widths of adaptive bits, of the same values and within this run's budget; false: they are
  /// those that a run begins with.
  bool widths = true;
};

class CheckpointState {
 public:
  /// References outlive this; `adaptive` may be null.
  CheckpointState(const EngineContext& context, RankMemory& memory, RankOptimizer& optimizer,
                  AdaptiveBits* adaptive)
      : context_(context), optimizer_(optimizer), adaptive_(adaptive), copies_(context, memory) {}

  /// This rank's part of a checkpoint. Waits for all work that is enqueued. The values lie in
  /// `memory`, which is replaced by a larger buffer where it is too small.
  [[nodiscard]] std::vector<checkpoint::HostSlice> slices(Buffer& memory) const;
  /// Makes `memory` as large as slices() needs it, before the work begins.
  void reserve(Buffer& memory) const;

  // What Engine::restore() consists of. Each returns the member of Restored with its name;
  // restore(), which returns `moments`, comes first.

  /// Reads master weights and the optimizer's moments, and sets the progress to `steps`. All that
  /// follows the master weights is made anew, and error feedback begins anew. Moments that were
  /// saved in another form than this run's, as `has` tells, are rounded to it; without `has` they
  /// were saved in this run's.
  bool restore(const StepCounts& steps, const ReadSlice& read, const HasSlice& has);
  /// Reads the errors, all or, where `has` does not know one of the arrays, none.
  bool restore_errors(const ReadSlice& read, const HasSlice& has);
  /// Reads the copies, all or, where `has` does not know one of the arrays, none.
  bool restore_copies(const ReadSlice& read, const HasSlice& has) {
    return copies_.restore(read, has);
  }
  /// Reads the widths, where `has` knows them. Called after AdaptiveBits::agree().
  bool restore_widths(const ReadSlice& read, const HasSlice& has);

  /// Reads master weights alone, and makes this rank's weights from them. What was gathered from
  /// the old ones is gathered again.
  void set_weights(const ReadSlice& read);
  /// Errors that error feedback keeps, in the device's memory; valid until the next step. Waits for
  /// the work on them.
  [[nodiscard]] std::vector<NamedState> error_feedback() const;
  /// The canonical 1/N shard of a unit's master weights, in the host's memory. Waits for the work
  /// before.
  [[nodiscard]] std::vector<std::byte> fetch_master(std::size_t unit) const;

 private:
  /// How an array of a checkpoint lies beside a unit's flat buffer.
  struct Form {
    std::size_t element_bytes = sizeof(float);
    std::size_t elements = 1;  ///< of the flat buffer, for each of the array's
  };
  static constexpr Form kScales{sizeof(float), optim::kMomentBlock};
  /// An array of the optimizer: a part of what this rank has of a unit.
  struct KeptArray {
    std::string name;  ///< in a checkpoint
    Form form;
    std::size_t begin;  ///< in the array
    std::size_t count;
    /// Elements, counted from `begin`, to and from the host's memory, for the compute stream.
    std::function<void(const Extent& part, std::span<std::byte> to)> read;
    std::function<void(const Extent& part, std::span<const std::byte> from)> write;
    /// Elements of the array that lie here.
    [[nodiscard]] Extent at(const Extent& part) const {
      return {part.count == 0 ? 0 : part.begin - begin, part.count};
    }
  };

  [[nodiscard]] std::string array_name(std::size_t unit, std::size_t index) const;
  [[nodiscard]] checkpoint::Slice slice(std::string array, const Form& form, std::size_t unit,
                                        const Extent& part) const;
  /// An array in the memory of the device or the host.
  [[nodiscard]] KeptArray in_memory(std::string name, const Form& form, const Extent& part,
                                    std::byte* values) const;
  /// Array `index` (0: the master) of what is offloaded, in a file; or its scales.
  [[nodiscard]] KeptArray in_file(std::string name, const Form& form, const Extent& part,
                                  std::size_t unit, std::size_t index, bool scales) const;
  /// This rank's parts of array `index` of a unit's optimizer: index 0 is the master, and the
  /// moments follow. A part of a moment in 8 bits is followed by the part of its scales.
  [[nodiscard]] std::vector<KeptArray> kept_arrays(std::size_t unit, std::size_t index) const;
  [[nodiscard]] std::vector<KeptSlice> kept_slices() const;
  /// Fills this rank's part of a saved array with values that `read` gives.
  void fill(std::size_t unit, const KeptArray& array, const ReadSlice& read);
  /// Fills a part of an array with `values`.
  void fill(const KeptArray& array, const Extent& part, std::span<const std::byte> values);
  /// The form in which the checkpoint has array `index` of a unit, a moment: this run's where
  /// `has` is empty, or knows the moment in no form.
  [[nodiscard]] optim::Moments saved_moments(std::size_t unit, std::size_t index,
                                             const HasSlice& has) const;
  /// A part of a moment that was saved in the form `saved`, widened to fp32.
  [[nodiscard]] std::vector<float> read_moments(optim::Moments saved, std::size_t unit,
                                                std::size_t index, const Extent& part,
                                                const ReadSlice& read) const;
  /// Fills a moment that was saved in another form than this run's, rounded to this run's.
  void convert(optim::Moments saved, std::size_t unit, std::size_t index, const ReadSlice& read);
  [[nodiscard]] checkpoint::Slice errors_slice(const NamedState& errors) const;
  [[nodiscard]] checkpoint::Slice widths_slice() const;
  /// Whether this rank's part of a checkpoint has the widths of adaptive bits.
  [[nodiscard]] bool keeps_widths() const;

  const EngineContext& context_;
  RankOptimizer& optimizer_;
  AdaptiveBits* adaptive_;
  KeptCopies copies_;
};

}  // namespace zeropp::zero
