#include "apps/kernels/operands.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::byte kPoison{0xFF};

std::size_t stride_of(const Array& array) {
  return round_up(std::max<std::size_t>(array.count, 1) * size_of(array.dtype), kAlignment);
}

}  // namespace

Operands::Operands(const std::vector<Array>& arrays, std::size_t sets, const ComputeDevice& device,
                   const Stream& stream)
    : arrays_(arrays), device_(device), stream_(stream) {
  for (const Array& array : arrays) {
    const std::size_t copies = array.shared ? 1 : sets;
    const std::size_t stride = stride_of(array);
    const Buffer& memory = memory_.emplace_back(copies * stride, device.memory);
    fill(array, memory, stride, copies);
  }
  for (std::size_t i = 0; i < sets; ++i) {
    std::vector<View> views;
    views.reserve(arrays.size());
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      const std::size_t offset = arrays[k].shared ? 0 : i * stride_of(arrays[k]);
      views.push_back(memory_[k].view(arrays[k].count, arrays[k].dtype, offset));
    }
    sets_.emplace_back(std::move(views));
  }
}

void Operands::fill(const Array& array, const Buffer& memory, std::size_t stride,
                    std::size_t copies) const {
  device_.runtime->fill(memory.data(), memory.bytes(), memory.kind(), kPoison);
  if (!array.fill || array.count == 0) return;
  const Buffer host(stride, MemoryKind::host);
  const View view = host.view(array.count, array.dtype);
  for (std::size_t i = 0; i < copies; ++i) {
    array.fill(view, i);
    stream_.copy(memory.data() + i * stride, host.data(), view.bytes());
    stream_.synchronize();
  }
}

Result Operands::download(std::size_t array) const {
  const View& from = sets_.front()[array];
  Buffer memory(std::max<std::size_t>(from.bytes(), 1), MemoryKind::host);
  const View view = memory.view(from.count, from.dtype);
  stream_.copy(memory.data(), static_cast<const std::byte*>(from.data), from.bytes());
  stream_.synchronize();
  return {std::move(memory), view, arrays_[array].name};
}

}  // namespace zeropp::kernels
