#include "lib/comm/native_call.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::comm {
namespace {

void require_equal_parts(std::size_t whole, std::size_t part, int ranks) {
  if (whole == part * static_cast<std::size_t>(ranks)) return;
  throw Error(ExitCode::environment,
              fmt::format("a collective over {} ranks was given {} elements for parts of {}", ranks,
                          whole, part));
}

bool all_on_device(const NativeCall& call, int rank) {
  return call.out.kind == MemoryKind::device &&
         (!reads_input(call, rank) || call.in.kind == MemoryKind::device);
}

bool any_on_device(const NativeCall& call, int rank) {
  return call.out.kind == MemoryKind::device ||
         (reads_input(call, rank) && call.in.kind == MemoryKind::device);
}

}  // namespace

const char* name_of(NativeOp op) {
  switch (op) {
    case NativeOp::all_gather:
      return "all-gather";
    case NativeOp::reduce_scatter:
      return "reduce-scatter";
    case NativeOp::all_reduce:
      return "all-reduce";
    case NativeOp::broadcast:
      return "broadcast";
    case NativeOp::all_to_all:
      break;
  }
  return "all-to-all";
}

bool reads_input(const NativeCall& call, int rank) {
  return call.op != NativeOp::broadcast || rank == call.root;
}

NativeSizes sizes_of(const NativeCall& call, int rank, int ranks) {
  const std::size_t in = call.in.count;
  const std::size_t out = call.out.count;
  switch (call.op) {
    case NativeOp::all_gather:
      require_equal_parts(out, in, ranks);
      return {.part = in, .whole = out};
    case NativeOp::reduce_scatter:
      require_equal_parts(in, out, ranks);
      return {.part = out, .whole = in};
    case NativeOp::all_reduce:
    case NativeOp::broadcast:
      if (reads_input(call, rank)) require_equal_parts(out, in, 1);
      return {.part = out, .whole = out};
    case NativeOp::all_to_all:
      break;
  }
  const std::size_t part = out / static_cast<std::size_t>(ranks);
  require_equal_parts(in, part, ranks);
  require_equal_parts(out, part, ranks);
  return {.part = part, .whole = out};
}

std::size_t whole_bytes(const NativeCall& call, const NativeSizes& sizes) {
  return sizes.whole * size_of(call.out.dtype);
}

int mpi_count(const NativeSizes& sizes) {
  if (std::in_range<int>(sizes.whole)) return static_cast<int>(sizes.part);
  throw Error(ExitCode::environment,
              fmt::format("{} elements are too many for MPI's own collective (at most {}): choose "
                          "an algorithm other than native, or smaller buckets",
                          sizes.whole, std::numeric_limits<int>::max()));
}

void require_device_memory(const NativeCall& call, int rank, const char* communicator) {
  if (all_on_device(call, rank)) return;
  throw Error(ExitCode::environment,
              fmt::format("the {} communicator was given host memory: use device memory, or groups "
                          "made for the host",
                          communicator));
}

void require_host_memory(const NativeCall& call, int rank, const char* communicator) {
  if (!any_on_device(call, rank)) return;
  throw Error(ExitCode::environment,
              fmt::format("the {} communicator was given device memory: use host memory, or groups "
                          "made for the device",
                          communicator));
}

}  // namespace zeropp::comm
