// Declares the registry's entries. The folder is the registry: all_gather/STEM.cpp defines
// all_gather_STEM, reduce_scatter/STEM.cpp defines reduce_scatter_STEM; the lists of stems are
// generated from the folders. A file that defines no such object does not link.
#pragma once

#include "lib/collective/collective.hpp"

namespace zeropp::collective {

#define ZEROPP_ENTRY(stem) extern const AllGatherAlgorithm all_gather_##stem;
#include "all_gather_algorithms.inc"
#undef ZEROPP_ENTRY

#define ZEROPP_ENTRY(stem) extern const ReduceScatterAlgorithm reduce_scatter_##stem;
#include "reduce_scatter_algorithms.inc"
#undef ZEROPP_ENTRY

}  // namespace zeropp::collective
