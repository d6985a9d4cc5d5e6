// What a reduction has to give, from the values of all ranks: the bits that the documented order of
// operations gives, with a bound on the error from what the codecs promise at every hop (the
// codecs' error_bound), and the exact sum in fp64. Uses codecs on single slices of host memory
// only; knows no messages, chunks or strides, so it is no second implementation of a collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::collective {

/// A row of values with the largest error that its making may have added, element by element.
struct Estimate {
  std::vector<float> values;
  std::vector<double> bound;

  /// Values that are exact.
  static Estimate exact(std::vector<float> values);
};

/// `row`, which begins at the begin of a block, encoded and decoded. `plain`: what `none` sends.
Estimate through(const codec::CodecSpec& spec, Dtype plain, Estimate row,
                 const codec::Draw& draw = {});

/// The same slice of rank `source`'s buffer, exact.
using Slices = std::function<Estimate(int source)>;

/// One reduction over all ranks of a topology. The slice that rank `rank` ends with is summed;
/// `slices` gives it, or any range of it that begins and ends at a block of the codecs or at its
/// end.
struct Reduction {
  std::string algorithm;  ///< of the registry
  comm::Topology topology;
  Dtype plain = Dtype::fp32;  ///< what `none` sends
  codec::CodecSpec first;
  codec::CodecSpec second;        ///< of the second hop, where there is one
  std::uint64_t key = 0;          ///< of the run's draws
  std::size_t first_element = 0;  ///< of a slice: where in its part the range that is summed begins

  /// In the order of operations that the algorithm documents. Throws std::invalid_argument for an
  /// algorithm whose order is not written down.
  [[nodiscard]] Estimate sum(int rank, const Slices& slices) const;
  /// In fp64, without codecs.
  [[nodiscard]] std::vector<double> exact(const Slices& slices) const;

 private:
  [[nodiscard]] Estimate two_hops(int rank, const Slices& slices) const;
  [[nodiscard]] Estimate around_the_ring(int rank, const Slices& slices) const;
  /// Of rank `rank`'s slice as rank `source` sends it on `hop`.
  [[nodiscard]] codec::Draw draw(int rank, std::size_t hop, int source) const;
};

}  // namespace zeropp::collective
