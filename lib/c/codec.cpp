// The part of the interface that is a codec by itself, and exact differences.
#include "kernels/codec/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "kernels/codec/exact.hpp"
#include "lib/base/error.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/c/plan_request.hpp"
#include "lib/c/zeropp.h"
#include "lib/collective/chunks.hpp"
#include "lib/device/device.hpp"

using namespace zeropp;
using namespace zeropp::c;

namespace {

/// A codec where its values and images lie.
struct Placed {
  codec::Codec codec;
  Dtype dtype;
  MemoryKind memory;
  codec::Layout layout;
};

MemoryKind memory_of(const char* function, zpp_device device) {
  if (device != ZPP_HOST && device != ZPP_CUDA) {
    throw Error(ExitCode::usage, fmt::format("{}: unknown device {}: give ZPP_HOST or ZPP_CUDA",
                                             function, static_cast<int>(device)));
  }
  if (device == ZPP_CUDA && cuda_memory_ops() == nullptr) {
    throw Error(ExitCode::environment,
                fmt::format("{}: this library was built without CUDA: give ZPP_HOST, or build it "
                            "with -DZEROPP_ENABLE_CUDA=ON",
                            function));
  }
  return device == ZPP_CUDA ? MemoryKind::device : MemoryKind::host;
}

Backend backend_of(MemoryKind memory) {
  return memory == MemoryKind::device ? Backend::cuda : Backend::host;
}

Placed place(const char* function, const char* codec, zpp_dtype dtype, zpp_device device,
             std::size_t count) {
  const MemoryKind memory = memory_of(function, device);
  const Dtype type = dtype_of(dtype, function);
  const codec::Codec bound(codec_of(codec, function), type, backend_of(memory));
  return {bound, type, memory, collective::padded_layout(count, bound.block())};
}

void require_aligned(const char* function, const void* memory, const char* what) {
  require_given(memory, function, what);
  if (reinterpret_cast<std::uintptr_t>(memory) % 16 == 0) return;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: `{}` does not begin at a multiple of 16 bytes: align it", function, what));
}

void require_memory(const char* function, const void* values, const void* image) {
  require_given(values, function, "values");
  require_aligned(function, image, "image");
}

/// Dtype, memory and operations of exact differences.
struct Differences {
  Dtype dtype;
  MemoryKind memory;
  const codec::ExactOps& ops;
};

Differences differences(const char* function, zpp_dtype dtype, zpp_device device) {
  const MemoryKind memory = memory_of(function, device);
  const Dtype type = dtype_of(dtype, function);
  if (type == Dtype::fp32) {
    throw Error(ExitCode::usage,
                fmt::format("{}: exact differences are of 16-bit values: give ZPP_BF16 or ZPP_FP16",
                            function));
  }
  return {type, memory, codec::exact_ops(backend_of(memory))};
}

codec::ExactShape shape_of(const char* function, std::size_t count, const zpp_exact_shape* shape) {
  require_given(shape, function, "shape");
  const codec::ExactShape given{static_cast<unsigned>(shape->width), shape->escapes};
  if (given.escapes <= count && codec::exact_bytes(count, given) == shape->bytes) return given;
  throw Error(ExitCode::usage,
              fmt::format("{}: the shape is not of {} values: take zpp_exact_shape_of()'s",
                          function, count));
}

}  // namespace

zpp_status zpp_image_bytes(const char* codec, zpp_dtype dtype, size_t count, size_t* bytes) {
  return guarded([&] {
    require_given(bytes, "zpp_image_bytes", "bytes");
    *bytes = place("zpp_image_bytes", codec, dtype, ZPP_HOST, count).codec.wire_bytes(count);
  });
}

zpp_status zpp_encode(const char* codec, zpp_dtype dtype, zpp_device device, const void* values,
                      size_t count, void* image, void* stream) {
  return guarded([&] {
    const Placed placed = place("zpp_encode", codec, dtype, device, count);
    if (count == 0) return;
    require_memory("zpp_encode", values, image);
    placed.codec.encode({values, count, placed.dtype, placed.memory}, placed.layout,
                        {static_cast<std::byte*>(image), placed.codec.wire_bytes(count)}, {stream});
  });
}

zpp_status zpp_decode(const char* codec, zpp_dtype dtype, zpp_device device, const void* image,
                      size_t count, void* values, void* stream) {
  return guarded([&] {
    const Placed placed = place("zpp_decode", codec, dtype, device, count);
    if (count == 0) return;
    require_memory("zpp_decode", values, image);
    placed.codec.decode({static_cast<const std::byte*>(image), placed.codec.wire_bytes(count)},
                        placed.layout, {values, count, placed.dtype, placed.memory}, {stream});
  });
}

zpp_status zpp_exact_count_bytes(size_t count, size_t* bytes) {
  return guarded([&] {
    require_given(bytes, "zpp_exact_count_bytes", "bytes");
    *bytes = codec::exact_count_bytes(count);
  });
}

zpp_status zpp_exact_count(zpp_dtype dtype, zpp_device device, const void* values, const void* copy,
                           size_t count, void* counts, void* escapes, void* stream) {
  return guarded([&] {
    const Differences of = differences("zpp_exact_count", dtype, device);
    require_aligned("zpp_exact_count", counts, "counts");
    require_aligned("zpp_exact_count", escapes, "escapes");
    of.ops.count({values, count, of.dtype, of.memory}, {copy, count, of.dtype, of.memory},
                 static_cast<std::byte*>(counts), static_cast<codec::Escapes*>(escapes), {stream});
  });
}

zpp_status zpp_exact_shape_of(size_t count, const uint64_t* escapes, zpp_exact_shape* shape) {
  return guarded([&] {
    require_given(escapes, "zpp_exact_shape_of", "escapes");
    require_given(shape, "zpp_exact_shape_of", "shape");
    codec::Escapes counted;
    std::copy_n(escapes, counted.size(), counted.begin());
    const codec::ExactShape best = codec::exact_shape(count, counted);
    *shape = {static_cast<int>(best.width), best.escapes, codec::exact_bytes(count, best)};
  });
}

zpp_status zpp_exact_encode(zpp_dtype dtype, zpp_device device, const void* values,
                            const void* copy, size_t count, void* counts,
                            const zpp_exact_shape* shape, void* image, void* stream) {
  return guarded([&] {
    const Differences of = differences("zpp_exact_encode", dtype, device);
    const codec::ExactShape given = shape_of("zpp_exact_encode", count, shape);
    if (shape->bytes == 0) return;
    require_aligned("zpp_exact_encode", counts, "counts");
    require_aligned("zpp_exact_encode", image, "image");
    of.ops.encode({values, count, of.dtype, of.memory}, {copy, count, of.dtype, of.memory},
                  static_cast<std::byte*>(counts), given, static_cast<std::byte*>(image), {stream});
  });
}

zpp_status zpp_exact_decode(zpp_dtype dtype, zpp_device device, const void* image, size_t images,
                            size_t count, const zpp_exact_shape* shape, void* copies,
                            void* stream) {
  return guarded([&] {
    const Differences of = differences("zpp_exact_decode", dtype, device);
    const codec::ExactShape given = shape_of("zpp_exact_decode", count, shape);
    if (shape->bytes == 0) return;
    require_aligned("zpp_exact_decode", image, "image");
    of.ops.decode({static_cast<const std::byte*>(image), shape->bytes}, images, count, given,
                  {copies, images * count, of.dtype, of.memory}, {stream});
  });
}
