#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/core/host_for.hpp"
#include "kernels/core/host_runtime.hpp"
#include "kernels/core/memory_probe.hpp"

namespace zeropp {

namespace {

void require_host(const ConstView& view) {
  if (view.kind == MemoryKind::device) {
    throw std::invalid_argument("memory probe: the host was given device memory");
  }
}

/// body(part, begin, end) in bytes, a part for each thread; parts begin on cache lines.
template <class Body>
void for_parts(std::size_t bytes, const Body& body) {
  constexpr std::size_t kLine = 64;
  const std::size_t parts = HostRuntime::threads();
  const std::size_t lines = (bytes + kLine - 1) / kLine;
  host_for("memory_probe", parts, [=](std::size_t part) {
    const std::size_t begin = std::min(bytes, lines * part / parts * kLine);
    const std::size_t end = std::min(bytes, lines * (part + 1) / parts * kLine);
    if (begin < end) body(part, begin, end);
  });
}

void copy(ConstView source, View destination, StreamHandle) {
  require_host(source);
  require_host(destination);
  if (source.bytes() != destination.bytes()) {
    throw std::invalid_argument("memory probe: views of different sizes");
  }
  const auto* const from = static_cast<const std::byte*>(source.data);
  auto* const to = static_cast<std::byte*>(destination.data);
  for_parts(source.bytes(), [=](std::size_t, std::size_t begin, std::size_t end) {
    std::memcpy(to + begin, from + begin, end - begin);
  });
}

/// Several independent accumulators: vector code whose loads do not wait for each other.
std::uint32_t xor_of(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kLanes = 32;
  std::uint32_t lane[kLanes] = {};
  std::uint32_t chunk[kLanes];
  std::size_t at = 0;
  for (; at + sizeof(chunk) <= bytes; at += sizeof(chunk)) {
    std::memcpy(chunk, data + at, sizeof(chunk));
    for (std::size_t k = 0; k < kLanes; ++k) lane[k] ^= chunk[k];
  }
  std::uint32_t all = 0;
  for (const std::uint32_t word : lane) all ^= word;
  for (; at + sizeof(all) <= bytes; at += sizeof(all)) {
    std::uint32_t word = 0;
    std::memcpy(&word, data + at, sizeof(word));
    all ^= word;
  }
  return all;
}

void read(ConstView source, View result, StreamHandle) {
  require_host(source);
  require_host(result);
  std::vector<std::uint32_t> sums(HostRuntime::threads());
  const auto* const from = static_cast<const std::byte*>(source.data);
  auto* const to = sums.data();
  const std::size_t bytes = source.bytes() / 16 * 16;
  for_parts(bytes, [=](std::size_t part, std::size_t begin, std::size_t end) {
    to[part] = xor_of(from + begin, end - begin);
  });
  std::uint32_t all = 0;
  for (const std::uint32_t sum : sums) all ^= sum;
  std::memcpy(result.data, &all, sizeof(all));
}

void write(View destination, StreamHandle) {
  require_host(destination);
  auto* const to = static_cast<std::byte*>(destination.data);
  for_parts(destination.bytes(), [=](std::size_t, std::size_t begin, std::size_t end) {
    std::memset(to + begin, 0, end - begin);
  });
}

}  // namespace

const MemoryProbe& host_memory_probe() {
  static constexpr MemoryProbe kProbe{.copy = copy, .read = read, .write = write};
  return kProbe;
}

}  // namespace zeropp
