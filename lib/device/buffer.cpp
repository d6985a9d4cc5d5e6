#include "lib/device/buffer.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp {

namespace {

const Runtime& runtime_of(MemoryKind kind) {
  if (kind == MemoryKind::host) return host_runtime();
  if (cuda_runtime() == nullptr) throw Error(ExitCode::environment, no_gpu_reason());
  return *cuda_runtime();
}

}  // namespace

Buffer::Buffer(std::size_t bytes, MemoryKind kind) : Buffer(bytes, kind, /*registrable=*/false) {}

Buffer Buffer::registrable(std::size_t bytes, MemoryKind kind) {
  return {bytes, kind, /*registrable=*/true};
}

Buffer::Buffer(std::size_t bytes, MemoryKind kind, bool registrable) : bytes_(bytes), kind_(kind) {
  const Runtime& runtime = runtime_of(kind);
  if (bytes == 0) return;
  std::byte* const memory =
      (registrable ? runtime.allocate_registrable : runtime.allocate)(bytes, kind);
  if (memory == nullptr) {
    throw OutOfMemory(
        kind,
        kind == MemoryKind::device
            ? fmt::format("no memory for {} bytes on the GPU beside {} in use: use more GPUs, a "
                          "smaller --micro-batch-size or a smaller model",
                          bytes, runtime.memory_use().current)
            : fmt::format("no memory for {} bytes: use fewer ranks on this host or a smaller model",
                          bytes));
  }
  memory_ = {memory, Release{bytes, kind, registrable}};
}

void Buffer::Release::operator()(std::byte* memory) const noexcept {
  const Runtime& runtime = kind == MemoryKind::host ? host_runtime() : *cuda_runtime();
  (registrable ? runtime.release_registrable : runtime.release)(memory, bytes, kind);
}

Buffer Buffer::zeros(std::size_t count, Dtype dtype, MemoryKind kind) {
  Buffer buffer(count * size_of(dtype), kind);
  if (buffer.data() != nullptr) {
    runtime_of(kind).fill(buffer.data(), buffer.bytes(), kind, std::byte{0});
  }
  return buffer;
}

}  // namespace zeropp
