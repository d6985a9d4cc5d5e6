// Reference of reductions: the result that a reduction has to give, from the values of all ranks.
// It is the bits that the documented order of operations gives, with a bound on the error from what
// the codecs promise at every hop (the codecs' error_bound), and the exact sum in fp64. With error
// feedback it keeps the errors as well. Uses codecs on single slices of host memory only; knows no
// messages, chunks or strides, so it is no second implementation of a collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/collective/error_feedback.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::collective {

/// A row of values with the largest error that its making may have added, element by element.
struct Estimate {
  std::vector<float> values;
  std::vector<double> bound;

  /// Values that are exact.
  static Estimate exact(std::vector<float> values);
};

/// Estimate of `row`, which begins at the begin of a block, encoded and decoded. `plain`: what
/// `none` sends.
Estimate through(const codec::CodecSpec& spec, Dtype plain, Estimate row,
                 const codec::Draw& draw = {});

/// Errors that error feedback keeps of one slice, in fp32 as they are read again; empty: nothing
/// yet.
struct SliceErrors {
  std::vector<std::vector<float>> first;   ///< by source rank
  std::vector<std::vector<float>> second;  ///< by node, where there are two hops
};

/// Function that gives one slice of rank `source`'s buffer, exact; the slice is the same for all
/// ranks.
using Slices = std::function<Estimate(int source)>;

/// One reduction over all ranks of a topology. The slice that rank `rank` ends with is summed;
/// `slices` gives it, or any range of it that begins and ends at a block of the codecs or at its
/// end.
struct Reduction {
  std::string algorithm;  ///< of the registry
  comm::Topology topology;
  Dtype plain = Dtype::fp32;  ///< what `none` sends
  codec::CodecSpec first;
  codec::CodecSpec second;     ///< of the second hop, where there is one
  FeedbackOptions feedback{};  ///< for sums that are given errors
  std::uint64_t key = 0;       ///< of the run's draws
  std::size_t begin = 0;       ///< element of the slices at which the values of `slices` begin

  /// Sum in the order of operations that the algorithm documents. Throws std::invalid_argument for
  /// an algorithm whose order is not written down. `errors` of the slice: what earlier sums left;
  /// this one leaves its own. Null: no feedback. Bounds then count what is fed back as error.
  [[nodiscard]] Estimate sum(int rank, const Slices& slices, SliceErrors* errors = nullptr) const;
  /// Sum in fp64, without codecs.
  [[nodiscard]] std::vector<double> exact(const Slices& slices) const;

 private:
  [[nodiscard]] Estimate two_hops(int rank, const Slices& slices, SliceErrors* errors) const;
  /// Estimate of `row` + `error` in whole blocks of `block`, encoded and decoded; `error` becomes
  /// what that lost.
  [[nodiscard]] Estimate fed_back(const codec::CodecSpec& spec, Estimate row, std::size_t block,
                                  std::vector<float>& error, const codec::Draw& draw) const;
  [[nodiscard]] Estimate around_the_ring(int rank, const Slices& slices) const;
  /// Draw for rank `rank`'s slice as rank `source` sends it on `hop`.
  [[nodiscard]] codec::Draw draw(int rank, std::size_t hop, int source) const;
};

}  // namespace zeropp::collective
