// Sums and maxima over ranks, from the values of all of them: as Control promises them, whatever
// carries the values.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace zeropp::comm {

/// Sets `values` to the sums over ranks of `all`, which holds as many of each rank, in rank order:
/// the order in which they are added.
template <class Value>
void add_in_rank_order(std::span<const Value> all, std::span<Value> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (std::size_t at = i; at < all.size(); at += values.size()) values[i] += all[at];
  }
}

/// Raises `values`, the own ones, to the maxima over ranks of `all`. Keeps NaN.
inline void take_maxima(std::span<const double> all, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t at = i; at < all.size(); at += values.size()) {
      if (std::isnan(all[at]) || all[at] > values[i]) values[i] = all[at];
    }
  }
}

}  // namespace zeropp::comm
