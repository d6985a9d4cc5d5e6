// An engine's part of a checkpoint, and how an engine continues from it: the optimizer's arrays
// (optimizer_arrays.hpp), the copies that weight differences are added to (kept_copies.hpp), error
// feedback's errors, which only the same ranks can use, and the widths of adaptive bits, which rank
// 0 saves. Owns nothing; reads and writes the arrays of others on the compute stream. A run is
// restored before its first step. Throws Error(io) where a file cannot be read or written.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/checkpoint/saver.hpp"
#include "lib/device/buffer.hpp"
#include "lib/zero/communication/gradient_errors.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/kept_copies.hpp"
#include "lib/zero/engine/optimizer_arrays.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/quantization/adaptive_bits.hpp"

namespace zeropp::zero {

/// Which parts of a checkpoint were restored. Parts that this run does not use count as restored.
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
      : context_(context),
        optimizer_(optimizer),
        adaptive_(adaptive),
        arrays_(context, optimizer),
        copies_(context, memory) {}

  /// This rank's part of a checkpoint. Waits for all work that is enqueued. The values lie in
  /// `memory`, which is replaced by a larger buffer where it is too small.
  [[nodiscard]] std::vector<checkpoint::HostSlice> slices(Buffer& memory) const;
  /// Makes `memory` as large as slices() needs it, before the work begins.
  void reserve(Buffer& memory) const;

  // Parts of Engine::restore(). Each returns the member of Restored with its name; restore(), which
  // returns `moments`, comes first.

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

  /// Reads master weights alone, and makes this rank's weights from them. Weights that were
  /// gathered from the old ones are gathered again.
  void set_weights(const ReadSlice& read);
  /// Errors that error feedback keeps, in the device's memory; valid until the next step. Waits for
  /// the work on them.
  [[nodiscard]] std::vector<NamedState> error_feedback() const;
  /// The canonical 1/N shard of a unit's master weights: OptimizerArrays::fetch_master().
  [[nodiscard]] std::vector<std::byte> fetch_master(std::size_t unit) const {
    return arrays_.fetch_master(unit);
  }

 private:
  [[nodiscard]] std::vector<KeptSlice> kept_slices() const;
  [[nodiscard]] checkpoint::Slice errors_slice(const NamedState& errors) const;
  [[nodiscard]] checkpoint::Slice widths_slice() const;
  /// Whether this rank's part of a checkpoint has the widths of adaptive bits.
  [[nodiscard]] bool keeps_widths() const;

  const EngineContext& context_;
  RankOptimizer& optimizer_;
  AdaptiveBits* adaptive_;
  OptimizerArrays arrays_;
  KeptCopies copies_;
};

}  // namespace zeropp::zero
