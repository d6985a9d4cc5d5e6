#include <cstdlib>
#include <cstring>

#include "lib/base/checked.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp {

namespace {

constexpr std::size_t kAlignment = 256;

std::byte* allocate(std::size_t bytes, MemoryKind) {
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
}

void* no_handle() { return nullptr; }

}  // namespace

const Runtime& host_runtime() {
  static constexpr Runtime kRuntime{
      .allocate = allocate,
      .release = [](std::byte* memory, std::size_t, MemoryKind) noexcept { std::free(memory); },
      .memory_use = [] { return MemoryUse{}; },
      .fill = [](std::byte* memory, std::size_t bytes, MemoryKind,
                 std::byte value) { std::memset(memory, std::to_integer<int>(value), bytes); },
      .make_stream = [](const char*) -> void* { return nullptr; },
      .release_stream = [](void*) noexcept {},
      .make_event = no_handle,
      .release_event = [](void*) noexcept {},
      .record = [](void*, void*) {},
      .wait = [](void*, void*) {},
      .synchronize = [](void*) {},
      .synchronize_event = [](void*) {}};
  return kRuntime;
}

}  // namespace zeropp
