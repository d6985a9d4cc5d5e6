// The part of the optimizer that lies in the memory of the host, or in a file, and steps on threads
// of the rank. Gradients come from the device piece by piece and new weights go back, each through
// one of several staging buffers: while one piece is updated, gradients of the next ones are on
// their way, and weights of the ones before; so it is with master and states where they lie in a
// file. Its results have the bits of a step on the device. Owns master weights, states, staging and
// two streams, one for each direction. Where the device is the host, the same happens between two
// places of one memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/device/workers.hpp"
#include "lib/zero/optimizer/file_weights.hpp"
#include "lib/zero/optimizer/optimizer_records.hpp"
#include "lib/zero/optimizer/optimizer_shard.hpp"
#include "lib/zero/plan/offload_plan.hpp"
#include "lib/zero/plan/options.hpp"

namespace zeropp::zero {

/// Arrays of others that an offloaded optimizer reads and writes, at the same addresses in every
/// step.
struct OffloadedArrays {
  /// Gradients by unit, on the device, of all that this rank updates: fp32 sums over ranks and
  /// micro-steps.
  std::span<const View> gradients;
  /// Weights by unit, in the compute dtype, that follow the master: on the device, or with
  /// OffloadParamOptions on the host. Empty where the master itself serves, and of units that
  /// `file_weights` has.
  std::span<const View> weights;
  FileWeights* file_weights = nullptr;  ///< outlives the optimizer; null: no weights lie in files
};

class OffloadedOptimizer {
 public:
  /// The first elements of what `setup` says this rank updates are offloaded as `options` say.
  /// `device` has the gradients; `workers` step. Throws Error(environment) when there is no memory,
  /// Error(io) where there is no place for a file.
  OffloadedOptimizer(const OptimizerSetup& setup, const OffloadedArrays& arrays,
                     const Options& options, const Device& device, const Workers& workers);
  /// Waits, also after a failure, for the writes of this object's memory to files, which outlive
  /// it.
  ~OffloadedOptimizer();
  OffloadedOptimizer(const OffloadedOptimizer&) = delete;
  OffloadedOptimizer& operator=(const OffloadedOptimizer&) = delete;

  /// The first elements of each unit; its arrays are elsewhere where records() has them.
  [[nodiscard]] const OptimizerShard& shard() const { return shard_; }
  /// Master weights and states that lie in a file; null: they do not.
  [[nodiscard]] OptimizerRecords* records() const { return records_.get(); }

  /// Starts the first gradients on their way to the host: all are final where `stream` is now.
  /// Called before the updates of a step, which follow for all units in order.
  void begin(const Stream& stream);
  /// Step t of one unit, done before it returns: it waits for gradients to arrive. Work that is
  /// enqueued on `stream` from now on finds the new weights; for weights in a file see
  /// wait_for_files().
  void update(std::size_t unit, std::uint64_t t, float gradient_scale, double clip,
              const Stream& stream);
  /// Makes the unit's weights from its master, for work that is enqueued on `stream` from now on.
  void make_weights(std::size_t unit, const Stream& stream);
  /// Returns when all that goes to files is there. Throws Error(io).
  void wait_for_files();

  [[nodiscard]] std::size_t staging_bytes() const;

 private:
  /// Places that a piece's weights go to when they are made.
  enum class Target : std::uint8_t { device, host, file, nowhere };
  /// Buffers that a piece travels through, to the host and back.
  struct Staging {
    Buffer gradients;
    Buffer weights;            ///< empty where the master's own go back, or none
    Event arrived;             ///< gradients, from the device
    Event left;                ///< weights, to the device
    AsyncFile::Transfer kept;  ///< weights, in their file
  };
  [[nodiscard]] std::vector<Target> targets(const Options& options,
                                            const FileWeights* file_weights) const;
  [[nodiscard]] std::vector<Staging> make_staging(const OffloadStaging& plan,
                                                  const Device& device) const;
  [[nodiscard]] std::span<const OffloadPiece> pieces_of(std::size_t unit) const;
  [[nodiscard]] Staging& staging(std::size_t piece) { return staging_[piece % staging_.size()]; }
  [[nodiscard]] std::vector<UnitArrays> unit_arrays(std::size_t units, const optim::Kept& kept);
  /// Parts of the 16-bit weights that a piece brings back which no tensor covers: codecs of weights
  /// see them. `own` is the element of the unit's flat buffer at which this rank's update begins.
  [[nodiscard]] std::vector<View> gaps(std::size_t piece, const UnitPartition& unit,
                                       std::size_t own);
  /// The 16-bit weights of a piece, on the host, that follow its master; empty in fp32.
  [[nodiscard]] View narrow(std::size_t piece);
  /// The fp32 master weights of a piece, in the host's memory; where they are kept in records,
  /// while the records are there.
  [[nodiscard]] View master(std::size_t piece);
  /// Writes initial weights and states to the file.
  void fill_records(const std::vector<Unit>& units);
  void fetch(std::size_t piece);
  /// Starts to read master and states from the file.
  void read(std::size_t piece);
  void send(std::size_t piece);
  /// Releases a staging whose weights have gone where they were to go.
  void release(Staging& staging);
  /// Makes `stream` wait for what was sent.
  void join(const Stream& stream);

  Workers workers_;
  Dtype compute_;
  bool pipeline_read_;
  bool pipeline_write_;
  Device host_ = Device::host();
  std::vector<OffloadPiece> pieces_;
  FileWeights* file_weights_;
  std::vector<Target> targets_;  ///< by piece
  std::vector<View> gradients_;  ///< by piece, on the device
  std::vector<View> weights_;    ///< by piece, where the target has them; or empty
  OffloadStaging plan_;
  std::vector<Staging> staging_;
  std::size_t prefetched_;  ///< pieces that are on their way in, beside the one that is updated
  std::unique_ptr<OptimizerRecords> records_;  ///< null: they lie in memory
  std::vector<std::vector<View>> gaps_;        ///< by piece, where its 16-bit weights are made
  Stream down_;                                ///< from the device
  Stream up_;                                  ///< to the device
  OptimizerShard shard_;
};

}  // namespace zeropp::zero
