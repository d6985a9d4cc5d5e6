#include "lib/zero/optimizer/optimizer_records.hpp"

#include <algorithm>
#include <cstring>

namespace zeropp::zero {

OptimizerRecords::OptimizerRecords(std::vector<OffloadPiece> pieces, std::size_t arrays,
                                   const OffloadStaging& staging, const Options& options,
                                   MemoryKind memory)
    : pieces_(std::move(pieces)),
      arrays_(arrays),
      layout_(optimizer_layout(pieces_, arrays)),
      slots_(staging.buffers),
      file_(options.offload_optimizer.nvme_path, layout_.bytes, options.aio) {
  for (Slot& each : slots_) each.memory = Buffer(staging.arrays, memory);
}

std::size_t OptimizerRecords::array_bytes(std::size_t piece) const {
  return file_bytes(pieces_[piece].extent.count, sizeof(float));
}

View OptimizerRecords::array(std::size_t piece, std::size_t index) {
  return slot(piece).memory.view(pieces_[piece].extent.count, Dtype::fp32,
                                 index * array_bytes(piece));
}

void OptimizerRecords::fetch(std::size_t piece) {
  Slot& to = slot(piece);
  file_.wait(to.under_way);
  to.under_way =
      file_.read(layout_.begin[piece], to.memory.span().first(arrays_ * array_bytes(piece)));
}

void OptimizerRecords::arrive(std::size_t piece) { file_.wait(slot(piece).under_way); }

void OptimizerRecords::send(std::size_t piece) {
  Slot& from = slot(piece);
  from.under_way =
      file_.write(layout_.begin[piece], from.memory.span().first(arrays_ * array_bytes(piece)));
}

void OptimizerRecords::clear(std::size_t piece) {
  arrive(piece);
  std::ranges::fill(slot(piece).memory.span(), std::byte{0});
}

void OptimizerRecords::drain() {
  for (const Slot& each : slots_) file_.wait(each.under_way);
}

template <class Body>
void OptimizerRecords::for_each_part(std::size_t unit, std::size_t array, const Extent& part,
                                     bool write, const Body& body) {
  drain();
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const Extent& here = pieces_[piece].extent;
    const std::size_t first = std::max(part.begin, here.begin);
    const std::size_t last = std::min(part.begin + part.count, here.begin + here.count);
    if (pieces_[piece].unit != unit || first >= last) continue;
    const auto memory = slot(piece).memory.span().first(array_bytes(piece));
    const std::uint64_t at = layout_.begin[piece] + array * array_bytes(piece);
    file_.wait(file_.read(at, memory));
    body((first - part.begin) * sizeof(float),
         memory.subspan((first - here.begin) * sizeof(float), (last - first) * sizeof(float)));
    if (write) file_.wait(file_.write(at, memory));
  }
}

void OptimizerRecords::read(std::size_t unit, std::size_t array, const Extent& part,
                            std::span<std::byte> to) {
  for_each_part(unit, array, part, false, [&](std::size_t at, std::span<std::byte> values) {
    std::memcpy(to.data() + at, values.data(), values.size());
  });
}

void OptimizerRecords::write(std::size_t unit, std::size_t array, const Extent& part,
                             std::span<const std::byte> from) {
  for_each_part(unit, array, part, true, [&](std::size_t at, std::span<std::byte> values) {
    std::memcpy(values.data(), from.data() + at, values.size());
  });
}

std::size_t OptimizerRecords::bytes() const {
  std::size_t total = 0;
  for (const Slot& each : slots_) total += each.memory.bytes();
  return total;
}

}  // namespace zeropp::zero
