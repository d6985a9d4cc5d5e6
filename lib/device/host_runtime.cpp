#include <chrono>
#include <cstdlib>
#include <cstring>

#include "lib/base/checked.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp {

namespace {

constexpr std::size_t kAlignment = 4096;  // of pages: direct transfers of files ask for it

using Clock = std::chrono::steady_clock;

std::byte* allocate(std::size_t bytes, MemoryKind) {
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
}

void release(std::byte* memory, std::size_t, MemoryKind) noexcept { std::free(memory); }

void* no_handle() { return nullptr; }

}  // namespace

const Runtime& host_runtime() {
  static constexpr Runtime kRuntime{
      .allocate = allocate,
      .release = release,
      .allocate_registrable = allocate,
      .release_registrable = release,
      .memory_use = [] { return MemoryUse{}; },
      .fill = [](std::byte* memory, std::size_t bytes, MemoryKind,
                 std::byte value) { std::memset(memory, std::to_integer<int>(value), bytes); },
      .copy = [](std::byte* to, const std::byte* from, std::size_t bytes,
                 void*) { std::memcpy(to, from, bytes); },
      .make_stream = [](const char*, StreamPriority) -> void* { return nullptr; },
      .release_stream = [](void*) noexcept {},
      .make_event = no_handle,
      .release_event = [](void*) noexcept {},
      .record = [](void*, void*) {},
      .wait = [](void*, void*) {},
      .synchronize = [](void*) {},
      .synchronize_event = [](void*) {},
      .make_mark = []() -> void* { return new Clock::time_point; },
      .release_mark = [](void* mark) noexcept { delete static_cast<Clock::time_point*>(mark); },
      .set_mark = [](void* mark, void*) { *static_cast<Clock::time_point*>(mark) = Clock::now(); },
      .seconds_between =
          [](void* earlier, void* later) {
            return std::chrono::duration<double>(*static_cast<Clock::time_point*>(later) -
                                                 *static_cast<Clock::time_point*>(earlier))
                .count();
          }};
  return kRuntime;
}

}  // namespace zeropp
