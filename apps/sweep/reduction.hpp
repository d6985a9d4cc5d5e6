// Base of the collectives that sum: the codecs of their hops and what they have to give.
#pragma once

#include "apps/sweep/collective.hpp"

namespace zeropp::sweep {

/// Reduction with one codec on every hop.
inline collective::Reduction reduction(const Shape& shape, const Variant& variant) {
  return {variant.algorithm, shape.topology, shape.dtype, variant.codec, variant.codec};
}

/// Elements [first, first + length) of everybody's buffer.
inline collective::Slices slices(const Shape& shape, const Data& data, std::size_t first,
                                 std::size_t length) {
  return [&shape, &data, first, length](int source) {
    std::vector<float> values(length);
    data.values(shape.members[static_cast<std::size_t>(source)], first, values);
    return collective::Estimate::exact(std::move(values));
  };
}

}  // namespace zeropp::sweep
