// Typed, non-owning views of memory: what kernels take. A view says where the memory lies, so that
// a host launcher refuses device memory instead of crashing in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.hpp"
#include "kernels/core/half.hpp"

namespace zeropp {

enum class MemoryKind : std::uint8_t { host, pinned, device };

namespace detail {
template <class T>
inline constexpr Dtype dtype_of = Dtype::fp32;
template <>
inline constexpr Dtype dtype_of<Bf16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<Fp16> = Dtype::fp16;

template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  std::size_t count = 0;  ///< elements
  Dtype dtype = Dtype::fp32;
  MemoryKind kind = MemoryKind::host;

  [[nodiscard]] std::size_t bytes() const { return count * size_of(dtype); }

  /// The part [first, first + length), in elements. The caller keeps it inside the view.
  [[nodiscard]] BasicView part(std::size_t first, std::size_t length) const {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>,
                                    const std::byte, std::byte>;
    return {static_cast<Byte*>(data) + first * size_of(dtype), length, dtype, kind};
  }

  /// The elements as T; the caller has checked `dtype`.
  template <class T>
  [[nodiscard]] auto as() const {
    using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;
    return static_cast<Element*>(data);
  }
};
}  // namespace detail

struct View : detail::BasicView<void*> {
  View() = default;
  View(detail::BasicView<void*> base) : detail::BasicView<void*>(base) {}  // NOLINT: same thing
  View(void* data_, std::size_t count_, Dtype dtype_, MemoryKind kind_ = MemoryKind::host)
      : detail::BasicView<void*>{data_, count_, dtype_, kind_} {}
  template <class T>
  static View of(T* data, std::size_t count, MemoryKind kind = MemoryKind::host) {
    return {data, count, detail::dtype_of<T>, kind};
  }
};

struct ConstView : detail::BasicView<const void*> {
  ConstView() = default;
  ConstView(detail::BasicView<const void*> base)
      : detail::BasicView<const void*>(base) {}  // NOLINT
  ConstView(const View& view)                    // NOLINT: a view of mutable memory is a view
      : detail::BasicView<const void*>{view.data, view.count, view.dtype, view.kind} {}
  ConstView(const void* data_, std::size_t count_, Dtype dtype_,
            MemoryKind kind_ = MemoryKind::host)
      : detail::BasicView<const void*>{data_, count_, dtype_, kind_} {}
  template <class T>
  static ConstView of(const T* data, std::size_t count, MemoryKind kind = MemoryKind::host) {
    return {data, count, detail::dtype_of<T>, kind};
  }
};

/// Calls `body` with a null pointer of the element type that `dtype` names: the one place where a
/// run-time dtype becomes a compile-time type.
template <class Body>
decltype(auto) with_type(Dtype dtype, Body&& body) {
  switch (dtype) {
    case Dtype::bf16:
      return body(static_cast<Bf16*>(nullptr));
    case Dtype::fp16:
      return body(static_cast<Fp16*>(nullptr));
    case Dtype::fp32:
      break;
  }
  return body(static_cast<float*>(nullptr));
}

}  // namespace zeropp
