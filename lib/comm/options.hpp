// Options of what moves bytes, as plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/enum_names.hpp"

namespace zeropp::comm {

/// Mover of the bytes of a group: MPI (device memory is staged through pinned host memory), NCCL
/// (device memory only, one GPU a rank), or copies in the memory of one process (virtual ranks).
enum class Transport : std::uint8_t { mpi, nccl, memory };
constexpr auto enum_names(Transport) { return name_table("mpi", "nccl", "memory"); }

/// Whether NCCL moves large messages of one size inside nodes by the GPUs' copy engines.
enum class CopyEngines : std::uint8_t { on, off };
constexpr auto enum_names(CopyEngines) { return name_table("on", "off"); }

/// Bytes of a piece from which copy engines take it, between places in registered memory. Shorter
/// ones arrive as soon or sooner by a kernel: an operation of the copy engines takes some 30 us to
/// begin and end.
inline constexpr std::size_t kFewestCopied = std::size_t{4} << 20U;

}  // namespace zeropp::comm
