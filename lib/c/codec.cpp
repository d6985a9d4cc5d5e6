// The part of the interface that is a codec by itself.
#include "kernels/codec/codec.hpp"

#include <fmt/format.h>

#include <cstdint>

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

Placed place(const char* function, const char* codec, zpp_dtype dtype, zpp_device device,
             std::size_t count) {
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
  const Dtype type = dtype_of(dtype, function);
  const codec::Codec bound(codec_of(codec, function), type,
                           device == ZPP_CUDA ? Backend::cuda : Backend::host);
  return {bound, type, device == ZPP_CUDA ? MemoryKind::device : MemoryKind::host,
          collective::padded_layout(count, bound.block())};
}

void require_memory(const char* function, const void* values, const void* image) {
  require_given(values, function, "values");
  require_given(image, function, "image");
  if (reinterpret_cast<std::uintptr_t>(image) % 16 == 0) return;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: the image does not begin at a multiple of 16 bytes: align it", function));
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
