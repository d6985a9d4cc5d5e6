// The optimizer's arrays in a checkpoint: the fp32 master weights and the moments of every unit, as
// arrays "UNIT/master", "UNIT/state0", ... in the layout of the unit's flat buffer. At every stage
// a rank saves its canonical shard of them, so that any number of ranks can read them. Moments are
// saved in the form in which a run keeps them: in fp32, as "UNIT/state0/bf16", or as
// "UNIT/state0/int8" with one scale for each block of the flat buffer in "UNIT/state0/scales". Owns
// nothing; reads and writes the arrays of the RankOptimizer, on the device, on the host and in
// files, on the compute stream. Throws Error(io) where a file cannot be read or written.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/kept_copies.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"

namespace zeropp::zero {

class OptimizerArrays {
 public:
  /// References outlive this.
  OptimizerArrays(const EngineContext& context, RankOptimizer& optimizer)
      : context_(context), optimizer_(optimizer) {}

  /// Slices that this rank saves.
  [[nodiscard]] std::vector<KeptSlice> slices() const;
  /// Reads master weights and moments. Moments that were saved in another form than this run's, as
  /// `has` tells, are rounded to it; without `has` they were saved in this run's. Returns whether
  /// all were saved in this run's form. Weights that follow the master are not made anew.
  bool restore(std::size_t unit, const ReadSlice& read, const HasSlice& has);
  /// Reads the master weights of a unit alone.
  void read_master(std::size_t unit, const ReadSlice& read);
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

  const EngineContext& context_;
  RankOptimizer& optimizer_;
};

}  // namespace zeropp::zero
