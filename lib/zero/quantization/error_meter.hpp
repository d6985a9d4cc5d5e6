// Measures, every so many steps, what compression does to weights and gradients, and records it by
// kind of unit. Weights: each rank's shard is compared with what the ranks compute with instead:
// its place in the whole weights or in the copy that a rank keeps of them or, where they are
// gathered for each use, what the wire codec makes of it. Gradients: the sums over ranks and
// micro-steps that the optimizer gets are compared with sums of the same gradients by an fp32
// reduce-scatter in rank order. That one runs beside the run's own, and its bytes are not counted
// as sent by the step. Changes no value of the training; a measured step takes longer, since the
// host waits for the values and compares them. Owns all memory that it takes. Collective: every
// rank calls every function, in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/groups.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/stream.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/communication/gradient_reduce.hpp"
#include "lib/zero/plan/measurement.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/quantization/quantization_error.hpp"

namespace zeropp::zero {

class ErrorMeter {
 public:
  /// `units` of the model, whose partitions, codecs and buckets are those of `plan`. `groups`: that
  /// gradients are reduced in. `groups`, `control` and `recorder` outlive this. Throws
  /// Error(environment) when there is no memory.
  ErrorMeter(const Options& options, const std::vector<Unit>& units, const RankPlan& plan,
             comm::Groups& groups, comm::Control& control, const Device& device,
             trace::Recorder& recorder);

  /// The step begins that has `step` others before it, those of earlier runs included. True: it is
  /// measured, which is every `measure_errors` steps from step 0 on.
  bool begin_step(std::uint64_t step);

  /// Rows of the weights: `shards[u]`, of unit u, as gathers are given it; `kept[u]`: the same
  /// elements as the rank computes with them, where it keeps these, else empty (encodes_again()).
  /// Both in the compute dtype or in fp32 that is rounded to it, in memory that `stream`'s work so
  /// far has written. `keys[u]`: of the draws of the unit's gather; `codecs[u]`: the index of its
  /// codec in the table. Waits for the stream.
  void weights(std::span<const ConstView> shards, std::span<const ConstView> kept,
               std::span<const std::uint64_t> keys, std::span<const std::size_t> codecs,
               const Stream& stream);
  /// Reduces a bucket's gradients exactly (arguments as of GradientReduce::start()); `first`: of
  /// the first micro-step that is reduced.
  void reduce(std::size_t bucket, std::span<const View> gradients, bool first, StreamHandle stream);
  /// Rows of the gradients: `shards[u]`, sums over ranks and micro-steps. Waits for the stream.
  void gradients(std::span<const ConstView> shards, const Stream& stream);

  [[nodiscard]] MemoryReport memory() const;

 private:
  /// The unit's shard after the codec of its gather.
  [[nodiscard]] ConstView encoded_again(std::size_t unit, ConstView shard, std::uint64_t key,
                                        std::size_t codec, StreamHandle stream) const;
  /// Adds what tensors have of unit `unit`'s shard. Both views are of `dtype`, or fp32 that is
  /// rounded to it first.
  void add(std::size_t unit, ConstView exact, ConstView coded, Dtype dtype, const Stream& stream);
  [[nodiscard]] std::vector<std::byte> fetch(ConstView view, const Stream& stream) const;
  /// Makes rows of the sums over ranks, and begins them again.
  void record(const char* what);

  std::size_t interval_;
  std::size_t rank_;
  std::vector<Unit> units_;
  std::vector<UnitPartition> partitions_;
  Dtype compute_;
  comm::Control& control_;
  ComputeDevice device_;
  trace::Recorder& recorder_;

  std::vector<std::string> kinds_;    ///< in the order of their first units
  std::vector<std::size_t> kind_of_;  ///< by unit
  std::vector<ErrorSums> sums_;       ///< by kind
  std::uint64_t step_ = 0;            ///< number of the step that has begun

  MeasurementMemory planned_;
  std::vector<std::vector<codec::Codec>> weight_codecs_;  ///< by unit, as in the table
  Buffer image_;    ///< of the largest shard that is encoded again
  Buffer decoded_;  ///< the same shard, in the compute dtype

  trace::Recorder uncounted_;
  GradientReduce exact_;
  Buffer sum_;                        ///< of the largest bucket, fp32
  Buffer workspace_;                  ///< of the largest bucket
  std::vector<Buffer> exact_shards_;  ///< by unit, fp32
};

}  // namespace zeropp::zero
