// Recorder of a run, in memory: timers, collectives, steps, units. Knows no file format
// (lib/trace/sinks writes it) and no communication. One per process; not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp::trace {

/// Wall time by category, exclusive: time inside a nested scope counts for the inner category only,
/// so the categories add up to the time inside the outermost scopes.
class Timers {
 public:
  /// Fixed vocabulary, so that reports can rely on it. `communication`: waiting for other ranks.
  enum class Category : std::uint8_t {
    matmul,
    nn,
    codec,
    optimizer,
    communication,
    data,
    other,
    count
  };
  static std::string_view name_of(Category category);

  class Scope {
   public:
    Scope(Timers& timers, Category category) : timers_(timers), outer_(timers.enter(category)) {}
    ~Scope() { timers_.enter(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timers& timers_;
    Category outer_;
  };

  /// Seconds spent in `category` so far.
  [[nodiscard]] double seconds(Category category) const;

 private:
  friend class Scope;
  /// Closes the running interval and starts one for `category`; returns the category that ran.
  Category enter(Category category);

  using Clock = std::chrono::steady_clock;
  Category running_ = Category::count;  ///< `count`: outside all scopes, not accounted
  Clock::time_point since_ = Clock::now();
  std::array<double, static_cast<std::size_t>(Category::count)> seconds_{};
};

/// One row per (operation, algorithm, codec, group). Bytes are of this rank.
struct CollectiveRow {
  std::string operation;  ///< "all_gather", "reduce_scatter", ...
  /// Traffic of the engine: "weights", "weights_secondary", "weights_difference", "weights_copy",
  /// "gradients", "gradients_across".
  std::string purpose;
  std::string phase;  ///< "initial", "forward", "backward", "update", "evaluation"
  std::string algorithm;
  std::string codec;  ///< canonical; two hops: "int4:128/int4:128"
  std::string group;
  /// "fused" or "composed" where a reduction encodes again; then where errors are fed back, and in
  /// which hops: "composed+feedback:intra,inter", "feedback:intra"; else empty
  std::string path;
  bool modelled = false;  ///< vendor's route: bytes are the closed form of a ring, not counted
  std::uint64_t calls = 0;
  std::uint64_t logical_bytes = 0;  ///< uncompressed bytes that the operation delivers to this rank
  std::uint64_t wire_bytes_intra = 0;
  std::uint64_t wire_bytes_inter = 0;
  double seconds = 0;  ///< time in start and finish on this rank
};

/// Whether runs of both are counted in one row.
bool same_keys(const CollectiveRow& a, const CollectiveRow& b);

/// One optimizer step. Bytes are of this rank until the trace sums them.
struct StepRow {
  double loss = 0;       ///< nats per token, mean over ranks and micro-steps
  double grad_norm = 0;  ///< global norm of the mean gradient, before clipping
  double time = 0;       ///< seconds
  double tokens_per_second = 0;
  std::uint64_t bytes_intra_node = 0;
  std::uint64_t bytes_inter_node = 0;
  std::uint64_t bytes_predicted_intra_node = 0;
  std::uint64_t bytes_predicted_inter_node = 0;
  double learning_rate = 0;
  double loss_scale = 1;      ///< that the loss was multiplied by before backward
  std::uint64_t skipped = 0;  ///< 1: a non-finite gradient somewhere; no rank stepped
  double time_forward = 0;    ///< seconds, this rank
  double time_backward = 0;
  double time_communication_exposed = 0;
  double time_gather = 0;        ///< gathers were at work, those after the update too
  double time_reduce = 0;        ///< reductions were
  double time_agreement = 0;     ///< ranks agreed on the sizes of exact differences
  double time_optimizer = 0;     ///< the optimizer was
  double time_offload_wait = 0;  ///< of that, the host with what is offloaded
};

struct EvaluationRow {
  std::uint64_t step = 0;     ///< steps before it, skipped ones included
  double loss = 0;            ///< nats per token, held-out
  double bits_per_byte = 0;   ///< NaN where tokens are no bytes, and of the quadratic
  std::uint64_t batches = 0;  ///< micro-batches of one rank
  /// The loss of each of up to 16 parts of the held-out data, one after the other, as equal as
  /// micro-batches allow: how far a loss depends on which text it was measured on.
  std::vector<double> parts = {};
};

/// A unit as the engine sees it.
struct UnitRow {
  std::string name;
  std::uint64_t elements = 0;  ///< parameters, without padding
  std::uint64_t flat = 0;      ///< with tensor alignment
  std::uint64_t padded = 0;    ///< world size * shard
  std::uint64_t shard = 0;
  std::uint64_t gathers_forward = 0;  ///< a micro-step
  std::uint64_t gathers_backward = 0;
};

/// Effect of compression on values of one kind of unit, in one step; over all ranks.
struct ErrorRow {
  std::uint64_t step = 0;  ///< steps before it, skipped ones included
  std::string kind;        ///< weights, gradients
  std::string unit_kind;   ///< embedding, block, head, ...
  double relative_l2 = 0;  ///< norm of the error / norm of the exact values
  double cosine = 1;       ///< between both
  double largest = 0;      ///< largest |error| / largest |exact value|
  double norm_ratio = 1;   ///< of the values that are used to the exact ones
};

/// Codecs that a unit takes from a step on, until its next row.
struct CodecRow {
  std::uint64_t step = 0;  ///< steps before it, skipped ones included
  std::uint64_t unit = 0;  ///< row of `units`
  std::string weights;     ///< canonical; "none" without qwZ
  std::string gradients_intra;
  std::string gradients_inter;
};

/// Shape of the exact differences of a unit that ranks agreed on, for one exchange.
struct ExactRow {
  std::uint64_t step = 0;     ///< steps before it, skipped ones included
  std::uint64_t unit = 0;     ///< row of `units`
  std::uint64_t width = 0;    ///< bits of a code; 0: nothing differs, 16: values go as they are
  std::uint64_t escapes = 0;  ///< values that go beside the codes, of 16 bits each
};

/// Numbers that a choice of widths was made by: a unit at one width; over all ranks.
struct WidthRow {
  std::uint64_t step = 0;  ///< after which it was made: steps before that one
  std::uint64_t unit = 0;  ///< row of `units`
  std::uint64_t bits = 0;
  double error = 0;         ///< sum of squares of what the width would lose
  std::uint64_t bytes = 0;  ///< that it sends in a step
  std::uint64_t chosen = 0;
};

/// A checkpoint that was made complete. The values are this rank's until the trace brings ranks
/// together.
struct CheckpointRow {
  std::uint64_t step = 0;   ///< steps that it is after, earlier runs' included
  std::uint64_t bytes = 0;  ///< of the files
  double time_paused = 0;   ///< seconds in which training waited: copies, what is agreed on
  double time_writing = 0;  ///< seconds in which files were written, digested and flushed
};

struct Recorder {
  Timers timers;
  std::deque<CollectiveRow> collectives;  ///< deque: rows keep their address
  std::vector<StepRow> steps;
  std::vector<EvaluationRow> evaluations;
  /// Micro-batches of a rank in the evaluation after the last step, which a signal cut off and
  /// which has no row; 0: none was.
  std::uint64_t evaluation_cut_off = 0;
  std::vector<CheckpointRow> checkpoints;  ///< where the run saves itself
  std::vector<UnitRow> units;
  std::vector<ErrorRow> errors;  ///< where the engine measures them
  /// Copies of the weights in the checkpoint that the run resumes from: `none`, `behind` (of the
  /// weights before its last step) or `current` (of those after it).
  std::string copies_found = "none";
  std::vector<CodecRow> codecs;                   ///< where they depend on step or unit
  std::vector<ExactRow> exact;                    ///< with exact differences
  std::vector<WidthRow> widths;                   ///< with adaptive bits
  std::uint64_t width_budget = 0;                 ///< with adaptive bits: bytes per step, all ranks
  std::map<std::string, std::uint64_t> counters;  ///< named totals, e.g. "secondary_gathers"
  std::uint64_t first_step =
      0;  ///< steps done before those recorded, by the run that this one resumes
  bool searches_loss_scale = false;  ///< skips steps to find one: a skip is no divergence
  bool gave_up = false;    ///< ended before its time: gradients were not finite, whatever the loss
                           ///< scale, or a step was found damaged
  std::string corruption;  ///< that verifying the last step found, in one line; empty: none
  bool weights_damaged = false;  ///< gave up: updates in backward had used such gradients
  std::string interrupted;  ///< the signal after which the run ended early; empty: it ran whole

  /// Returns the row with these keys, and makes it where there is none. The reference stays valid.
  CollectiveRow& collective(const CollectiveRow& keys);
};

}  // namespace zeropp::trace
