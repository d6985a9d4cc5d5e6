// lib/collective/reference.hpp on the generated values of all ranks: what the collectives have to
// give in tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/collective/draws.hpp"
#include "lib/collective/reference.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::test {

using collective::Estimate;
using collective::through;

/// Part `part` (of `count` elements) of rank `source`'s buffer.
inline Estimate slice(Dtype dtype, int source, int part, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t e = 0; e < count; ++e) {
    values[e] = value_of(dtype, source, static_cast<std::size_t>(part) * count + e);
  }
  return Estimate::exact(std::move(values));
}

/// One reduce-scatter of parts of `count` generated values.
struct Reduction {
  std::string_view algorithm;
  comm::Topology topology;
  Dtype memory;
  Dtype plain;  ///< what `none` sends
  std::size_t count;
  codec::CodecSpec first;
  codec::CodecSpec second;
  std::uint64_t key = kDrawKey;

  /// The sum over ranks of slice `rank`, in the order of operations that the algorithm documents.
  [[nodiscard]] Estimate sum(int rank) const {
    return reduction().sum(rank, [&](int source) { return slice(memory, source, rank, count); });
  }
  /// The reduction in fp64, without codecs.
  [[nodiscard]] std::vector<double> exact(int rank) const {
    return reduction().exact([&](int source) { return slice(memory, source, rank, count); });
  }

 private:
  [[nodiscard]] collective::Reduction reduction() const {
    return {.algorithm = std::string(algorithm),
            .topology = topology,
            .plain = plain,
            .first = first,
            .second = second,
            .key = key};
  }
};

}  // namespace zeropp::test
