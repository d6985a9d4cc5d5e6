// Functions of a back end beneath its kernels, as a table: memory, streams, events and markers for
// profilers. Buffer, Stream, Event and Range own what it hands out; nothing else calls it. On the
// host a stream is null and runs inline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/view.hpp"

namespace zeropp {

/// Use of device memory by the buffers that this process holds, in bytes.
struct MemoryUse {
  std::size_t current = 0;
  std::size_t peak = 0;         ///< since the start of the process
  std::size_t allocations = 0;  ///< calls so far
};

/// A GPU that this process can use.
struct GpuInfo {
  std::string name;            ///< "NVIDIA H200"
  std::string uuid;            ///< "GPU-..."
  std::string pci;             ///< "0000:1b:00.0"
  int compute_capability = 0;  ///< 90
  std::size_t memory = 0;      ///< bytes
  std::size_t l2_cache = 0;    ///< bytes
};

/// Priority of a stream among those whose work waits for the GPU: transfers that others wait for
/// come before arithmetic.
enum class StreamPriority : std::uint8_t { normal, high };

struct Runtime {
  /// Allocates memory, aligned to 256 bytes; null when there is no such memory.
  std::byte* (*allocate)(std::size_t bytes, MemoryKind);
  void (*release)(std::byte*, std::size_t bytes, MemoryKind) noexcept;
  /// Allocates and releases memory that the GPUs of other processes on this host can be let into.
  std::byte* (*allocate_registrable)(std::size_t bytes, MemoryKind);
  void (*release_registrable)(std::byte*, std::size_t bytes, MemoryKind) noexcept;
  /// Use of MemoryKind::device; zero on the host.
  MemoryUse (*memory_use)();
  /// Fills all bytes of `memory`; done on return.
  void (*fill)(std::byte* memory, std::size_t bytes, MemoryKind, std::byte value);

  /// Enqueues a copy between any two kinds of memory that the back end reaches.
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes, void* stream);

  void* (*make_stream)(const char* name, StreamPriority);
  void (*release_stream)(void*) noexcept;
  void* (*make_event)();
  void (*release_event)(void*) noexcept;
  void (*record)(void* event, void* stream);
  void (*wait)(void* stream, void* event);
  void (*synchronize)(void* stream);
  void (*synchronize_event)(void* event);

  /// A mark is an event that knows its time.
  void* (*make_mark)();
  void (*release_mark)(void*) noexcept;
  void (*set_mark)(void* mark, void* stream);
  /// Seconds between two marks that their streams have both reached.
  double (*seconds_between)(void* earlier, void* later);

  /// Graphs: from begin_graph() to end_graph() what is enqueued on the stream, and on those that
  /// wait for it and that it waits for in the end, is kept instead of run. Null on the host.
  void (*begin_graph)(void* stream) = nullptr;
  void* (*end_graph)(void* stream) = nullptr;
  void (*drop_graph)(void* stream) noexcept = nullptr;  ///< ends it, and keeps nothing
  void (*launch_graph)(void* graph, void* stream) = nullptr;
  void (*release_graph)(void*) noexcept = nullptr;
};

const Runtime& host_runtime();
/// The GPU's; null in a build without CUDA.
const Runtime* cuda_runtime();

/// Visible GPUs in the driver's order; empty in a build without CUDA or where there is no driver.
std::vector<GpuInfo> visible_gpus();
/// Whether there are several visible GPUs, each joined with every other by NVLink.
bool nvlink_joins_gpus();
/// Reason why visible_gpus() is empty: one line with the remedy.
std::string no_gpu_reason();
/// Makes GPU `index` the one that this process allocates and computes on. Throws
/// Error(environment) where the GPU takes no further program, as others hold its memory.
void use_gpu(int index);
/// Bytes of this process's GPU that are not free, whoever holds them: CUDA's context and NCCL's
/// buffers too. 0 in a build without CUDA.
std::size_t gpu_memory_used();
/// "CUDA runtime 13.0, driver 13.0, NCCL 2.28.3"; empty in a build without CUDA.
std::string cuda_versions();
/// The version of the NCCL in this process, as ncclGetVersion() says it: 22803 is 2.28.3; 0 in a
/// build without CUDA.
int nccl_version();
std::string nccl_version_text(int version);  ///< "2.28.3"

/// GPU of the calling thread, as an index of visible_gpus(). Throws Error(environment) where there
/// is none.
int current_gpu();

/// Limits the GPU memory of all buffers of this process to so many bytes (0: no limit): making a
/// buffer that would exceed it fails. No effect in a build without CUDA.
void limit_gpu_memory(std::size_t bytes);

}  // namespace zeropp
