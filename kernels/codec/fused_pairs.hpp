// The list of pairs that fused.hpp looks up, the same on every back end.
#pragma once

#include <string_view>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"

namespace zeropp::codec {

/// Kernel<From, To>::run of the pair; null when it is not in the list.
template <template <class From, class To> class Kernel>
ReduceEncode::Fused find_pair(std::string_view from, std::string_view to) {
  using Int4 = format::int4::Format;
  using Int8 = format::int8::Format;
  struct Pair {
    std::string_view from;
    std::string_view to;
    ReduceEncode::Fused run;
  };
  static constexpr Pair kPairs[] = {
      {Int8::name, Int8::name, Kernel<Int8, Int8>::run},
      {Int8::name, Int4::name, Kernel<Int8, Int4>::run},
      {Int4::name, Int4::name, Kernel<Int4, Int4>::run},
      {Int4::name, Int8::name, Kernel<Int4, Int8>::run},
  };
  for (const Pair& pair : kPairs) {
    if (pair.from == from && pair.to == to) return pair.run;
  }
  return nullptr;
}

}  // namespace zeropp::codec
