// The ZeRO engine: executes the schedule of a step. A composition of partition, weight gather
// (codec, secondary), gradient reduce (codecs) and optimizer shard; a ZeRO stage is a preset of it.
// It knows a model as units and layers only. Gathers, reductions, the optimizer and compute run on
// streams of their own, ordered by the events that the schedule names. Collective: every rank calls
// every function, in the same order. Throws Error; a rank that throws leaves the others waiting, so
// the caller must end the job. Source: ZeRO (arXiv 1910.02054) stages, ZeRO++ (arXiv 2306.10209)
// sections 3.1-3.3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/saver.hpp"
#include "lib/comm/world.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/stream.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/adaptive_bits.hpp"
#include "lib/zero/codec_table.hpp"
#include "lib/zero/error_meter.hpp"
#include "lib/zero/filed_weights.hpp"
#include "lib/zero/gradient_norm.hpp"
#include "lib/zero/gradient_reduce.hpp"
#include "lib/zero/loss_scale.hpp"
#include "lib/zero/offloaded_optimizer.hpp"
#include "lib/zero/optimizer_shard.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/plans.hpp"
#include "lib/zero/schedule.hpp"
#include "lib/zero/secondary_partition.hpp"
#include "lib/zero/step_clock.hpp"
#include "lib/zero/unit_model.hpp"
#include "lib/zero/volume.hpp"
#include "lib/zero/weight_gather.hpp"

namespace zeropp::zero {

/// What a step did, on this rank.
struct StepResult {
  double loss = 0;  ///< nats a token, mean over this rank's micro-steps
  /// Global norm of the mean gradient, without the loss's scale, before clipping; NaN or Inf when
  /// skipped.
  double grad_norm = 0;
  double loss_scale = 1;     ///< that backward ran with
  double learning_rate = 0;  ///< of this step; where it is skipped, of the one that is taken next
  bool exhausted = false;    ///< skipped at the smallest loss scale: training cannot go on
  bool skipped = false;      ///< a non-finite gradient on some rank: no rank stepped
  comm::Bytes sent;          ///< counted
  comm::Bytes predicted;     ///< closed form
  double time_forward = 0;   ///< seconds on the compute stream
  double time_backward = 0;  ///< the same, until the last reduction is done
  double time_exposed = 0;  ///< of both, that compute waited for gathers and reductions, at stage 3
                            ///< also for the update before a unit's first gather; on the
                            ///< host, which has one thread, with the codec work of these
  double time_gather = 0;   ///< in which gathers of weights were at work, beside compute or not
  double time_reduce = 0;   ///< likewise reductions of gradients
};

/// What came after the gradients of a step; nothing where it was skipped. Seconds, on this rank.
struct UpdateTimes {
  double optimizer = 0;  ///< the optimizer was at work: on a GPU beside the next step's begin
  double offload = 0;    ///< the host was busy with, or waited for, the part that is offloaded
  double gather = 0;     ///< updated weights were gathered (stages 1 and 2, units that persist)
};

/// What an engine counts, and a checkpoint keeps.
struct StepCounts {
  std::uint64_t taken = 0;
  std::uint64_t begun = 0;  ///< with those that were skipped
};

/// Fills host memory with a slice of saved arrays. Throws Error(io).
using ReadSlice = std::function<void(const checkpoint::Slice&, std::span<std::byte>)>;

class Engine {
 public:
  /// `options` are resolved and validated (no "auto"). Weights are gathered in `groups`, gradients
  /// reduced in `reduce_groups`: of the same ranks and transport, and where they are others,
  /// neither queues behind the other. All references outlive the engine. Does not communicate: a
  /// rank that runs out of memory here can still tell the others.
  Engine(const Options& options, const optim::Options& optimizer, UnitModel& model,
         comm::Groups& groups, comm::Groups& reduce_groups, comm::Control& control,
         const Device& device, trace::Recorder& recorder);

  /// Before the first step; once, which step() and evaluate() see to where nobody did. Collective.
  /// All ranks throw AgreedError: usage where adaptive bits cannot keep their budget, environment
  /// where a rank cannot offer its memory to copy engines.
  void prepare();
  /// One optimizer step. `batch(m)` is micro-step m's batch; valid until the next call. With
  /// Options::measure_errors it leaves rows in the recorder's `errors`, the same on every rank.
  /// `before`: what came after the gradients of the step before, which this one has waited for.
  StepResult step(const std::function<Batch(std::size_t)>& batch, UpdateTimes* before = nullptr);
  /// Of the last step; waits for it.
  [[nodiscard]] UpdateTimes update_times();
  /// Mean loss of one held-out batch on this rank, nats a token.
  double evaluate(const Batch& batch);

  /// SHA-256 over the fp32 master weights, by canonical shard: the same at every stage. On every
  /// rank.
  [[nodiscard]] std::string parameters_hash() const;
  /// The fp32 master weights of a unit, flat (Unit::count elements), on rank 0; empty elsewhere.
  /// For export and tests: through the control plane, one unit at a time.
  [[nodiscard]] std::vector<float> gather_master(std::size_t unit) const;
  /// This rank's part of what a checkpoint keeps: of every unit the fp32 master weights and the
  /// optimizer's arrays, "UNIT/master", "UNIT/state0", ..., as slices of the unit's flat buffer:
  /// the canonical shard, at every stage; and what its error feedback keeps and, on rank 0, the
  /// widths of adaptive bits, as arrays of their own.
  /// Waits for the work before. The values lie in `memory`, which becomes larger where it has to:
  /// kept from one checkpoint to the next, it is not taken anew while training waits.
  [[nodiscard]] std::vector<checkpoint::HostSlice> state(Buffer& memory) const;
  /// Makes `memory` as large as state() needs it, before the work begins.
  void reserve_state(Buffer& memory) const;
  [[nodiscard]] StepCounts steps() const { return {steps_taken_, steps_begun_}; }
  /// Goes on from a state that was saved after `steps`, by any number of ranks at any stage. `read`
  /// fills the given memory with a slice of the saved arrays. What follows the master weights is
  /// made anew, and error feedback begins anew. Before the first step.
  void restore(const StepCounts& steps, const ReadSlice& read);
  /// Begins with other weights: "UNIT/master" only. Before the first step.
  void restore_weights(const ReadSlice& read);
  /// After restore(): the saved errors too, where they are of the same ranks, nodes, algorithm,
  /// buckets and storage. False, and nothing is read, where `has` does not know one of the arrays.
  bool restore_errors(const std::function<bool(const checkpoint::Slice&)>& has,
                      const ReadSlice& read);
  [[nodiscard]] const LossScale& loss_scale() const { return loss_scale_; }
  /// Goes on with another loss scale, between steps; what error feedback keeps follows.
  void set_loss_scale(const LossScale::State& state);
  /// After restore() and prepare(): the saved widths of adaptive bits too. False, and they
  /// are those that a run begins with, where `has` does not know them, or they are of other widths
  /// or more than the budget of this run.
  bool restore_widths(const std::function<bool(const checkpoint::Slice&)>& has,
                      const ReadSlice& read);
  /// What error feedback keeps, in the device's memory; valid until the next step. Empty without.
  /// Waits for the work on it.
  [[nodiscard]] std::vector<NamedState> error_feedback() const;
  /// Of the engine's state, its arena, and the model's own memory.
  [[nodiscard]] std::vector<MemoryReport> memory() const;

 private:
  /// A collective that was started and not yet completed.
  using Finish = std::function<void(StreamHandle)>;

  /// What a schedule is run for.
  enum class Mode : std::uint8_t { training, evaluation, initial };

  /// `clock` takes the times.
  void execute(const Schedule& schedule, Mode mode, StepClock& clock);
  void wait_for(const Schedule& schedule, const std::vector<std::size_t>& ops, StreamId waiting);
  /// What reads weights of a unit, or writes its gradients, begins after its latest update.
  void await_updates(const Op& op);
  void run(const Op& op, std::size_t position);
  void finish(const Schedule& schedule, std::size_t op);
  void complete(const Schedule& schedule, std::size_t op, StreamId waiting);
  [[nodiscard]] Phase phase_of(const Op& op) const;
  void start_gather(const Op& op, std::size_t position, collective::AllGather& gather,
                    ConstView shard, std::span<std::byte> memory);
  /// The weights that a gather begins with, on the device.
  [[nodiscard]] ConstView shard_to_gather(const Op& op);
  /// Of files, those that the schedule gathers begin to come, where no update in it makes them.
  void expect_weights(const Schedule& schedule);
  /// What goes to files is there when it returns.
  void settle_files();
  /// Files that this rank offloads to.
  [[nodiscard]] std::vector<const AsyncFile*> files() const;
  /// How they are read and written.
  void record_files();
  [[nodiscard]] AsyncFileTotals transfers() const;
  /// Counts those of a step, which began with `before`.
  void count_transfers(const AsyncFileTotals& before);
  /// The rest of the workspace.
  [[nodiscard]] std::span<std::byte> behind_upload(const Op& op) const;
  void refresh(const Op& op);
  [[nodiscard]] View shard_part(const Segment& segment) const;
  /// Where a bucket's sum over the ranks arrives: in the arena, or in the gradient shard itself.
  [[nodiscard]] View sum_of(const Op& op) const;
  /// Adds what a reduction summed to the gradient shards.
  void accumulate(const Op& op, StreamHandle on);
  /// Stages 1 and 2: the weights that they keep whole, before the first use.
  void gather_initial();
  /// Of the last step; the streams have come to its end.
  [[nodiscard]] UpdateTimes read_update_times() const;
  void forward(const Op& op);
  void backward(const Op& op);
  void update(const Op& op);
  /// The gradients that this rank's optimizer steps with, by unit: its shards, or everything at
  /// stage 0. Sums over ranks and micro-steps, at the same addresses in every step.
  [[nodiscard]] std::vector<View> own_gradients() const;
  /// Of them and their weights, what the device's part of the optimizer steps with.
  [[nodiscard]] std::vector<UnitArrays> optimizer_arrays() const;
  /// What the sums of gradients are multiplied by: makes them the mean, of the loss as it is.
  [[nodiscard]] float mean() const;
  /// Puts the codecs of the coming step into force.
  void apply_codecs();
  void record_codecs(const CodecChoice& before);
  /// Of the widths of adaptive bits in a checkpoint.
  [[nodiscard]] checkpoint::Slice widths_slice() const;
  /// After a step that adaptive bits are to learn from.
  void choose_widths();
  [[nodiscard]] WidthCosts width_costs(comm::Groups& reduce_groups) const;
  /// Measurements of a step: of the weights before it, where they are gathered through a codec; of
  /// its gradients, after the wait for its loss.
  void measure_weights();
  void measure_gradients();
  [[nodiscard]] ConstView compute_shard(std::size_t unit) const;
  [[nodiscard]] View follower(std::size_t unit) const;
  /// Weights in the compute dtype from the master on the device.
  void cut(std::size_t unit, const Stream& stream);
  /// From all of it, on the compute stream: where no step has made them.
  void make_weights(std::size_t unit);
  /// The loss since it was last taken, and whatever else the compute stream was to bring.
  [[nodiscard]] double wait_for_loss();
  /// Of the mean gradient, the same on every rank: squares by canonical shard, added in shard
  /// order. After the wait for what norm_ started.
  [[nodiscard]] double global_norm() const;
  [[nodiscard]] checkpoint::Slice slice_of(const NamedState& errors) const;
  [[nodiscard]] std::string array_name(std::size_t unit, std::size_t index) const;
  /// An array of the optimizer: a part of what this rank has of a unit's flat buffer.
  struct KeptArray {
    std::string name;   ///< in a checkpoint
    std::size_t begin;  ///< in the flat buffer
    std::size_t count;
    /// Elements, counted from `begin`, to and from the host's memory, for the compute stream.
    std::function<void(const Extent& part, std::span<std::byte> to)> read;
    std::function<void(const Extent& part, std::span<const std::byte> from)> write;
    /// Elements of the flat buffer that lie here.
    [[nodiscard]] Extent at(const Extent& part) const {
      return {part.count == 0 ? 0 : part.begin - begin, part.count};
    }
  };
  /// In memory of the device or the host.
  [[nodiscard]] KeptArray in_memory(std::string name, std::size_t begin, const View& values) const;
  /// Array `index` (0: the master) of what is offloaded, in a file.
  [[nodiscard]] KeptArray in_file(std::string name, std::size_t begin, std::size_t unit,
                                  std::size_t index) const;
  /// This rank's part of a saved array.
  void fill(std::size_t unit, const KeptArray& array, const ReadSlice& read);
  /// A slice of a checkpoint, and how its values come to the host's memory.
  struct KeptSlice {
    checkpoint::Slice slice;
    std::function<void(std::span<std::byte> to)> read;
  };
  [[nodiscard]] std::vector<KeptSlice> kept_slices() const;
  /// Whether this rank's part of a checkpoint has the widths of adaptive bits.
  [[nodiscard]] bool keeps_widths() const;
  /// Of a unit, the parts of array `index` of the optimizer: 0 is the master, then its states.
  [[nodiscard]] std::vector<KeptArray> kept_arrays(std::size_t unit, std::size_t index) const;
  /// The canonical 1/N shard of a unit's master weights, in the host's memory.
  [[nodiscard]] std::vector<std::byte> fetch_master(std::size_t unit) const;
  /// Makes the compute stream wait for everything enqueued on `ids`.
  void join(std::initializer_list<StreamId> ids) const;
  [[nodiscard]] comm::Bytes sent() const;
  [[nodiscard]] std::span<std::byte> workspace(const Op& op) const;
  /// What lies between the halves of a sum over shard groups.
  [[nodiscard]] std::span<std::byte> image(const Op& op) const;
  /// Keys of the draws of a bucket's reductions.
  [[nodiscard]] std::uint64_t reduction_draws(const Op& op) const;
  [[nodiscard]] std::uint64_t replica_draws(const Op& op) const;
  [[nodiscard]] std::size_t world_size() const {
    return static_cast<std::size_t>(groups_.world->size());
  }
  /// Groups of ranks that share a copy of everything, where not all do.
  [[nodiscard]] std::size_t shard_groups() const {
    return groups_.replicas ? static_cast<std::size_t>(groups_.replicas->size()) : 1;
  }
  /// That this rank answers for, at every stage.
  [[nodiscard]] std::size_t canonical() const {
    return canonical_shard(static_cast<std::size_t>(groups_.world->rank()), world_size(),
                           shard_groups());
  }
  /// Every rank's text, by canonical shard, on rank 0.
  [[nodiscard]] std::vector<std::string> gather_by_shard(const std::string& part) const;
  [[nodiscard]] const Stream& stream(StreamId id) const {
    return streams_.at(static_cast<std::size_t>(id));
  }

  Options options_;
  StagePreset preset_;
  UnitModel& model_;
  comm::Groups& groups_;
  comm::Groups& reduce_groups_;
  comm::Control& control_;
  ComputeDevice device_;
  trace::Recorder& recorder_;
  float mean_;  ///< 1 / (ranks * micro-steps)
  LossScale loss_scale_;
  std::array<Stream, kStreams> streams_;  ///< by StreamId

  Plans plans_;

  CodecChoice choice_;  ///< in force; empty before the first step
  Buffer arena_;
  std::vector<std::unique_ptr<comm::OfferedMemory>> offers_;  ///< of the arena, to both groups
  std::optional<SecondaryPartition> secondary_;
  std::vector<Buffer> compute_shards_;    ///< compute dtype; empty where the master itself serves
  std::vector<Buffer> resident_weights_;  ///< stages 0 to 2
  std::vector<Buffer> local_gradients_;   ///< stages 0 and 1: whole units, fp32
  std::vector<Buffer> gradient_shards_;   ///< stages 1 to 3: sums over micro-steps, fp32
  GradientNorm norm_;
  OptimizerShard optimizer_;           ///< all of it, or what is not offloaded
  std::optional<FiledWeights> filed_;  ///< weights that are gathered from a file
  std::optional<OffloadedOptimizer> offloaded_;
  std::optional<ErrorMeter> errors_;
  std::optional<AdaptiveBits> adaptive_;
  Buffer loss_;  ///< one double that the compute stream brings to the host

  // State of the execution.
  std::vector<Event> events_;
  std::vector<Finish> pending_;
  std::vector<ConstView> weight_views_;  ///< by unit: gathered or resident
  std::vector<View> gradient_views_;     ///< by unit: whole, padded
  std::vector<bool> gradient_is_fresh_;  ///< by unit: no backward has written it yet
  std::vector<Event> updated_;           ///< by unit: its latest update
  const std::function<Batch(std::size_t)>* batch_ = nullptr;
  bool gathered_initial_ = false;
  bool prepared_ = false;
  bool measured_ = false;  ///< the running step is
  Mode mode_ = Mode::training;
  double clip_ = 1.0;
  StepClock step_clock_;
  StepClock update_clock_;
  StepClock* clock_ = &step_clock_;      ///< of what is executed
  double offload_seconds_ = 0;           ///< of the last update, on the host
  std::uint64_t version_ = 1;            ///< of the weights: every step and load increments it
  std::uint64_t secondary_version_ = 0;  ///< that the secondary shards hold
  std::uint64_t steps_begun_ = 0;        ///< those that were skipped included
  std::uint64_t steps_taken_ = 0;        ///< the optimizer's t
};

}  // namespace zeropp::zero
