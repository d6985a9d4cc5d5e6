// What runs the numerical work of this rank: the back end, where its memory lies, and its tables of
// functions. Chosen once, in device.cpp: what computes calls the tables, and what has no kernels
// for a kind of memory refuses it when it is made.
#pragma once

#include "kernels/core/memory_ops.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"
#include "kernels/nn/nn_ops.hpp"
#include "kernels/optim/optim_ops.hpp"
#include "lib/device/runtime.hpp"
#include "lib/device/stream.hpp"

namespace zeropp {

/// A value; the tables live for the whole program.
struct Device {
  Backend backend = Backend::host;
  MemoryKind memory = MemoryKind::host;
  const Runtime* runtime = nullptr;
  const MemoryOps* memory_ops = nullptr;
  const optim::OptimOps* optim = nullptr;
  const nn::NnOps* nn = nullptr;

  /// The processor that this rank runs on.
  static Device host();
  /// GPU `index` of visible_gpus(), which becomes the one of this process. Throws
  /// Error(environment) with the remedy when there is none, or the build has no CUDA.
  static Device cuda(int index);

  /// What plans are made with that nobody runs: the host's codecs, whose wire images are those of
  /// every back end, no memory, and of `backend` the operations of models that say what memory they
  /// take.
  static Device planning(Backend backend);

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
