// The parallel loops of the host kernels. The runtime of these loops is linked: Kokkos in the
// programs (host_runtime.cpp), OpenMP in the C library and the Python module, which are moved to
// other machines (lib/c/host_loop.cpp). Kernels are therefore compiled once for both.
#pragma once

#include <algorithm>
#include <cstddef>

namespace zeropp {

/// A range of a loop: calls `task`, whatever its type is, for i in [begin, end).
using HostRange = void(const void* task, std::size_t begin, std::size_t end);

/// Calls `range` with `task` on several threads, for ranges that cover [0, count) once, in any
/// order; done when it returns.
void host_loop(const char* label, std::size_t count, HostRange* range, const void* task);

/// task(i) for i in [0, count), in any order; done when it returns. Each i writes its own outputs.
template <class Task>
void host_for(const char* label, std::size_t count, const Task& task) {
  const auto range = [](const void* any, std::size_t begin, std::size_t end) {
    const Task own = *static_cast<const Task*>(any);  // in registers: no store aliases its members
    for (std::size_t i = begin; i < end; ++i) own(i);
  };
  host_loop(label, count, range, &task);
}

/// body(begin, end) over ranges that cover [0, n), in any order; done when it returns. Threads get
/// blocks: the loop inside a block is plain, so that it vectorizes.
template <class Body>
void for_blocks(const char* label, std::size_t n, const Body& body) {
  constexpr std::size_t kBlock = 1024;
  host_for(label, (n + kBlock - 1) / kBlock, [=](std::size_t block) {
    const std::size_t begin = block * kBlock;
    body(begin, std::min(begin + kBlock, n));
  });
}

}  // namespace zeropp
