#include "apps/kernels/codec_checks.hpp"

#include <algorithm>

#include "lib/device/buffer.hpp"

namespace zeropp::kernels {

void encode_on_host(const codec::Codec& host, const Values& values, Dtype dtype, std::size_t images,
                    std::size_t n, View memory) {
  const Buffer plain(std::max<std::size_t>(images * n * size_of(dtype), 1), MemoryKind::host);
  const View view = plain.view(images * n, dtype);
  values.fill(view);
  host.encode(view, {images, n, 1, 0, n, n},
              {static_cast<std::byte*>(memory.data), host.wire_bytes(n)}, {});
}

double rounding(double value, Dtype dtype) {
  constexpr double kSums = 1e-6;
  const double magnitude = std::abs(value);
  switch (dtype) {
    case Dtype::bf16:
      return 0x1p-8 * magnitude;
    case Dtype::fp16:
      return 0x1p-11 * magnitude + 0x1p-24;
    case Dtype::fp32:
      break;
  }
  return kSums * magnitude;
}

double encode_operations(const codec::Codec& codec) { return codec.scale_bytes() > 0 ? 3 : 1; }

}  // namespace zeropp::kernels
