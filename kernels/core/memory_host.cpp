#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/core/copy_maths.hpp"
#include "kernels/core/digest.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/core/memory_ops.hpp"

namespace zeropp {

namespace {

void require_host(const ConstView& view, const char* what) {
  if (view.kind == MemoryKind::device) {
    throw std::invalid_argument(std::string(what) + ": the host was given device memory");
  }
}

void require_pair(const ConstView& source, const ConstView& destination, const char* what) {
  require_host(source, what);
  require_host(destination, what);
  if (source.count != destination.count) {
    throw std::invalid_argument(std::string(what) + ": " + std::to_string(source.count) +
                                " elements into " + std::to_string(destination.count));
  }
}

void clear(View values, StreamHandle) {
  require_host(values, "clear");
  auto* const bytes = static_cast<std::byte*>(values.data);
  for_blocks("clear", values.bytes(), [=](std::size_t begin, std::size_t end) {
    std::memset(bytes + begin, 0, end - begin);
  });
}

void copy(ConstView source, View destination, StreamHandle) {
  require_pair(source, destination, "copy");
  if (source.dtype != destination.dtype) {
    throw std::invalid_argument("copy: " + std::string(name_of(source.dtype)) + " into " +
                                std::string(name_of(destination.dtype)) + ": convert instead");
  }
  const auto* const from = static_cast<const std::byte*>(source.data);
  auto* const to = static_cast<std::byte*>(destination.data);
  for_blocks("copy", source.bytes(), [=](std::size_t begin, std::size_t end) {
    std::memcpy(to + begin, from + begin, end - begin);
  });
}

void convert(ConstView source, View destination, StreamHandle stream) {
  require_pair(source, destination, "convert");
  if (source.dtype == destination.dtype) return copy(source, destination, stream);
  with_type(source.dtype, [&](auto* from_tag) {
    with_type(destination.dtype, [&](auto* to_tag) {
      using From = std::remove_pointer_t<decltype(from_tag)>;
      using To = std::remove_pointer_t<decltype(to_tag)>;
      const From* const from = source.as<From>();
      To* const to = destination.as<To>();
      for_blocks("convert", source.count, [=](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) to[i] = saturating_cast<To>(to_float(from[i]));
      });
    });
  });
}

void subtract(ConstView values, ConstView copy, View difference, StreamHandle) {
  require_pair(values, copy, "subtract");
  require_pair(values, difference, "subtract");
  with_type(values.dtype, [&](auto* value_tag) {
    with_type(copy.dtype, [&](auto* copy_tag) {
      with_type(difference.dtype, [&](auto* to_tag) {
        using To = std::remove_pointer_t<decltype(to_tag)>;
        const auto* const from = values.as<std::remove_pointer_t<decltype(value_tag)>>();
        const auto* const base = copy.as<std::remove_pointer_t<decltype(copy_tag)>>();
        To* const to = difference.as<To>();
        for_blocks("subtract", values.count, [=](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            to[i] = difference_to<To>(to_float(from[i]), to_float(base[i]));
          }
        });
      });
    });
  });
}

void digest(ConstView values, std::uint64_t first, std::uint64_t* sum, StreamHandle) {
  require_host(values, "digest");
  const auto* const bytes = static_cast<const std::byte*>(values.data);
  const std::size_t count = values.bytes();
  const std::size_t words = (count + 3) / 4;
  const auto place = static_cast<std::uint32_t>(first);
  for_blocks("digest", words, [=](std::size_t begin, std::size_t end) {
    std::uint64_t total = 0;
    const std::size_t whole = std::min(end, count / 4);
    for (std::size_t i = begin; i < whole; ++i) {
      std::uint32_t word;
      std::memcpy(&word, bytes + i * 4, 4);
      total += word * digest_multiplier(place + static_cast<std::uint32_t>(i));
    }
    if (whole < end) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + whole * 4, count - whole * 4);
      total += word * digest_multiplier(place + static_cast<std::uint32_t>(whole));
    }
    std::atomic_ref(*sum).fetch_add(total, std::memory_order_relaxed);
  });
}

}  // namespace

const MemoryOps& host_memory_ops() {
  static constexpr MemoryOps kOps{
      .clear = clear, .copy = copy, .convert = convert, .subtract = subtract, .digest = digest};
  return kOps;
}

}  // namespace zeropp
