// A call of a vendor's own collective, as a value. The route is the vendor's, so its bytes are not
// counted (rows `modelled`).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/view.hpp"

namespace zeropp::comm {

enum class NativeOp : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  all_to_all
};

/// "all-gather", "reduce-scatter", ...: the name in flight records.
const char* name_of(NativeOp op);

/// Input and output of a call on a rank, of one dtype. One of the views holds a part for each rank,
/// all of one size, or both do:
///   all_gather      `in` is the own part, `out` all parts; `in` may lie at its place in `out`
///   reduce_scatter  `in` is all parts, `out` the own part of their sum over ranks, in the vendor's
///                   order and precision
///   all_reduce      `in` and `out` are of one size, and may be the same memory; `out` is the sum
///   broadcast       `in` of rank `root` (not read elsewhere) comes to `out` on every rank; on
///                   `root` they may be the same memory
///   all_to_all      part p of `in` goes to rank p, part p of `out` comes from it
struct NativeCall {
  NativeOp op = NativeOp::all_gather;
  ConstView in;
  View out;
  int root = 0;
};

/// Whether `rank` reads `in`: only the root of a broadcast does.
bool reads_input(const NativeCall& call, int rank);

/// Elements of one rank's part, and of the larger view.
struct NativeSizes {
  std::size_t part = 0;
  std::size_t whole = 0;
};

/// The sizes of a call on `rank` of `ranks`. Throws Error(environment) where the views do not fit
/// each other.
NativeSizes sizes_of(const NativeCall& call, int rank, int ranks);

/// Bytes of the larger view.
std::size_t whole_bytes(const NativeCall& call, const NativeSizes& sizes);

/// `sizes.part` as a count of MPI's collectives. Counts are int, and some libraries add them up in
/// int as well: the larger view has to fit. Throws Error(environment).
int mpi_count(const NativeSizes& sizes);

/// Memory that `communicator` reaches: the GPU's, or the host's (pinned or not). Throws
/// Error(environment).
void require_device_memory(const NativeCall& call, int rank, const char* communicator);
void require_host_memory(const NativeCall& call, int rank, const char* communicator);

}  // namespace zeropp::comm
