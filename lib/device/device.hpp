// Device of this rank: where its data lie and what moves them, which is the back end, its kind of
// memory, its runtime and its operations on memory. Chosen once, in device.cpp: what has no kernels
// for a kind of memory refuses it when it is made. Networks and optimizers take a ComputeDevice
// (compute_device.hpp).
#pragma once

#include "kernels/core/memory_ops.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"
#include "lib/device/runtime.hpp"
#include "lib/device/stream.hpp"

namespace zeropp {

/// A value; the tables live for the whole program.
struct Device {
  Backend backend = Backend::host;
  MemoryKind memory = MemoryKind::host;
  const Runtime* runtime = nullptr;
  const MemoryOps* memory_ops = nullptr;

  /// The processor that this rank runs on.
  static Device host();
  /// GPU `index` of visible_gpus(), which becomes the one of this process. Throws
  /// Error(environment) with the remedy when there is none, or the build has no CUDA.
  static Device cuda(int index);

  /// Host memory that a stream of this device copies to and from without making the host wait.
  [[nodiscard]] MemoryKind staging() const {
    return memory == MemoryKind::device ? MemoryKind::pinned : memory;
  }
  [[nodiscard]] Stream make_stream(const char* name,
                                   StreamPriority priority = StreamPriority::normal) const {
    return {*runtime, name, priority};
  }
  [[nodiscard]] const char* name() const { return backend == Backend::host ? "host" : "cuda"; }
};

}  // namespace zeropp
