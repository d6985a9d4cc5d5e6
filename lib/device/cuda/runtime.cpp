// Memory, streams and events of the GPU. Device memory comes from a stream-ordered pool of this
// process that never gives memory back before the process ends, and is counted; events are kept for
// reuse.
#include "lib/device/runtime.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/core/cuda/check.hpp"
#include "lib/base/error.hpp"
#include "lib/device/cuda/stream_watch.hpp"

namespace zeropp {

namespace {

using cuda::check;

/// Memory pool of the process on its GPU. Made at first use and never destroyed: buffers with
/// static lifetime may outlive any other order.
struct Pool {
  Pool() {
    int device = 0;
    check(cudaGetDevice(&device));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    check(cudaMemPoolCreate(&pool, &properties));
    auto keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }

  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;  ///< that allocations are ordered on
  MemoryUse use;
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< of use.current
  std::vector<cudaEvent_t> idle_events;
  std::size_t events = 0;  ///< idle and in use
};

Pool* the_pool = nullptr;

Pool& pool() {
  if (the_pool == nullptr) the_pool = new Pool;
  return *the_pool;
}

bool fits_limit(std::size_t bytes) {
  const Pool& of = pool();
  return bytes <= of.limit && of.use.current <= of.limit - bytes;
}

std::byte* counted(void* memory, std::size_t bytes) {
  MemoryUse& use = pool().use;
  use.current += bytes;
  use.peak = std::max(use.peak, use.current);
  ++use.allocations;
  return static_cast<std::byte*>(memory);
}

std::byte* allocate(std::size_t bytes, MemoryKind kind) {
  void* memory = nullptr;
  if (kind == MemoryKind::pinned) {
    if (cudaMallocHost(&memory, bytes) == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();
    return nullptr;
  }
  if (!fits_limit(bytes)) return nullptr;
  const Pool& from = pool();
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, from.pool, from.stream);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  check(status);
  // The allocation is waited for: other streams may use the memory as soon as this returns.
  check(cudaStreamSynchronize(from.stream));
  return counted(memory, bytes);
}

/// Waits for the device: work on any stream may still use the memory. Buffers are freed at the end
/// of a run, never inside a step.
void release(std::byte* memory, std::size_t bytes, MemoryKind kind) noexcept {
  if (kind == MemoryKind::pinned) {
    (void)cudaFreeHost(memory);
    return;
  }
  (void)cudaDeviceSynchronize();
  (void)cudaFreeAsync(memory, the_pool->stream);
  the_pool->use.current -= bytes;
}

/// A pool's memory has no handle that another process could map; NCCL's allocator gives one.
std::byte* allocate_registrable(std::size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::pinned) return allocate(bytes, kind);
  void* memory = nullptr;
  if (!fits_limit(bytes)) return nullptr;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return counted(memory, bytes);
}

void release_registrable(std::byte* memory, std::size_t bytes, MemoryKind kind) noexcept {
  if (kind == MemoryKind::pinned) return release(memory, bytes, kind);
  (void)cudaDeviceSynchronize();
  (void)ncclMemFree(memory);
  the_pool->use.current -= bytes;
}

void fill(std::byte* memory, std::size_t bytes, MemoryKind kind, std::byte value) {
  if (kind == MemoryKind::pinned) {
    std::memset(memory, std::to_integer<int>(value), bytes);
    return;
  }
  check(cudaMemsetAsync(memory, std::to_integer<int>(value), bytes, pool().stream));
  check(cudaStreamSynchronize(pool().stream));
}

void* make_stream(const char* name, StreamPriority priority) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? greatest : least));
  nvtxNameCudaStreamA(stream, name);
  return stream;
}

void* make_event() {
  std::vector<cudaEvent_t>& idle = pool().idle_events;
  if (!idle.empty()) {
    cudaEvent_t event = idle.back();
    idle.pop_back();
    return event;
  }
  idle.reserve(pool().events + 1);  // what takes it back must not fail
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ++pool().events;
  return event;
}

void* make_mark() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  return event;
}

cudaStream_t stream_of(void* native) { return static_cast<cudaStream_t>(native); }
cudaEvent_t event_of(void* native) { return static_cast<cudaEvent_t>(native); }

StreamWatch stream_watch = nullptr;

/// Polls query() until the GPU has finished that work; the watch may end the wait
/// (stream_watch.hpp).
template <class Query>
void wait_watched(const Query& query) {
  constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
  (void)poll(
      [&](Seconds waited) {
        const cudaError_t status = query();
        if (status != cudaErrorNotReady) {
          check(status);
          return Progress::done;
        }
        (void)cudaGetLastError();  // being busy counts as the last error: no launch may find it
        stream_watch(waited);
        return Progress::pending;
      },
      kNever);
}

void synchronize(void* stream) {
  if (stream_watch == nullptr) return check(cudaStreamSynchronize(stream_of(stream)));
  wait_watched([&] { return cudaStreamQuery(stream_of(stream)); });
}

void synchronize_event(void* event) {
  if (stream_watch == nullptr) return check(cudaEventSynchronize(event_of(event)));
  wait_watched([&] { return cudaEventQuery(event_of(event)); });
}

constexpr Runtime kRuntime{
    .allocate = allocate,
    .release = release,
    .allocate_registrable = allocate_registrable,
    .release_registrable = release_registrable,
    .memory_use = [] { return pool().use; },
    .fill = fill,
    .copy =
        [](std::byte* to, const std::byte* from, std::size_t bytes, void* stream) {
          check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)));
        },
    .make_stream = make_stream,
    .release_stream = [](void* stream) noexcept { (void)cudaStreamDestroy(stream_of(stream)); },
    .make_event = make_event,
    // NOLINTNEXTLINE(bugprone-exception-escape): make_event has reserved the place.
    .release_event = [](void* event) noexcept { pool().idle_events.push_back(event_of(event)); },
    .record = [](void* event,
                 void* stream) { check(cudaEventRecord(event_of(event), stream_of(stream))); },
    .wait = [](void* stream,
               void* event) { check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0)); },
    .synchronize = synchronize,
    .synchronize_event = synchronize_event,
    .make_mark = make_mark,
    .release_mark = [](void* mark) noexcept { (void)cudaEventDestroy(event_of(mark)); },
    .set_mark = [](void* mark,
                   void* stream) { check(cudaEventRecord(event_of(mark), stream_of(stream))); },
    .seconds_between =
        [](void* earlier, void* later) {
          float milliseconds = 0;
          check(cudaEventElapsedTime(&milliseconds, event_of(earlier), event_of(later)));
          return static_cast<double>(milliseconds) * 1e-3;
        },
    .begin_graph =
        [](void* stream) {
          check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
        },
    .end_graph = [](void* stream) -> void* {
      cudaGraph_t kept = nullptr;
      check(cudaStreamEndCapture(stream_of(stream), &kept));
      cudaGraphExec_t graph = nullptr;
      const cudaError_t status = cudaGraphInstantiate(&graph, kept, 0);
      (void)cudaGraphDestroy(kept);
      check(status);
      return graph;
    },
    .drop_graph =
        [](void* stream) noexcept {
          cudaGraph_t kept = nullptr;
          (void)cudaStreamEndCapture(stream_of(stream), &kept);
          if (kept != nullptr) (void)cudaGraphDestroy(kept);
          (void)cudaGetLastError();
        },
    .launch_graph =
        [](void* graph, void* stream) {
          check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
        },
    .release_graph =
        [](void* graph) noexcept {
          (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
        }};

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += hex.data();
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::vector<GpuInfo> ask_for_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i));
    std::array<char, 32> pci{};
    check(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), i));
    gpus.push_back({properties.name, uuid_text(properties.uuid), pci.data(),
                    properties.major * 10 + properties.minor, properties.totalGlobalMem,
                    static_cast<std::size_t>(properties.l2CacheSize)});
  }
  return gpus;
}

}  // namespace

const Runtime* cuda_runtime() { return &kRuntime; }

void set_stream_watch(StreamWatch watch) { stream_watch = watch; }

// The driver is asked once: every process of a node asks for all of its GPUs, at the same time.
std::vector<GpuInfo> visible_gpus() {
  static const std::vector<GpuInfo> gpus = ask_for_gpus();
  return gpus;
}

bool nvlink_joins_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return false;
  const auto joined = [](int from, int to) {
    int reaches = 0;
    int atomics = 0;  // of links, NVLink alone has them
    check(cudaDeviceCanAccessPeer(&reaches, from, to));
    if (reaches == 0) return false;
    check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
    return atomics != 0;
  };
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from != to && !joined(from, to)) return false;
    }
  }
  return count > 1;
}

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  return std::string("no GPU is visible (CUDA: ") +
         cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status) +
         "): ask the launcher for GPUs (--gpus-per-node), or use --backend host";
}

std::size_t gpu_memory_used() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  return total - free;
}

void limit_gpu_memory(std::size_t bytes) {
  pool().limit = bytes == 0 ? std::numeric_limits<std::size_t>::max() : bytes;
}

void use_gpu(int index) {
  const cudaError_t status = cudaSetDevice(index);
  if (status != cudaErrorMemoryAllocation && status != cudaErrorDevicesUnavailable) {
    return check(status);
  }
  throw Error(ExitCode::environment,
              fmt::format("GPU {} takes no further program: {} [{}]; nvidia-smi lists those that "
                          "hold it: end them, or ask the launcher for GPUs of your own",
                          index, cudaGetErrorString(status), cudaGetErrorName(status)));
}

int current_gpu() {
  if (visible_gpus().empty()) throw Error(ExitCode::environment, no_gpu_reason());
  int index = 0;
  check(cudaGetDevice(&index));
  return index;
}

}  // namespace zeropp
