#include "lib/zero/optimizer/optimizer_records.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

OptimizerRecords::OptimizerRecords(std::vector<OffloadPiece> pieces, const optim::Kept& kept,
                                   const OffloadStaging& staging, const Options& options,
                                   MemoryKind memory)
    : pieces_(std::move(pieces)),
      kept_(kept),
      layout_(optimizer_layout(pieces_, kept)),
      slots_(staging.buffers),
      file_(options.offload_optimizer.nvme_path, layout_.bytes, options.aio) {
  for (Slot& each : slots_) each.memory = Buffer(staging.arrays, memory);
}

std::size_t OptimizerRecords::bytes_of(std::size_t piece) const {
  return record_bytes(kept_, pieces_[piece].extent.count);
}

Extent OptimizerRecords::place(std::size_t piece, std::size_t index) const {
  const std::size_t count = pieces_[piece].extent.count;
  const std::size_t master = file_bytes(count, sizeof(float));
  if (index == 0) return {0, master};
  const std::size_t moment = moment_file_bytes(kept_, count);
  return {master + (index - 1) * moment, moment};
}

View OptimizerRecords::master(std::size_t piece) {
  return slot(piece).memory.view(pieces_[piece].extent.count, Dtype::fp32);
}

KeptMoment OptimizerRecords::moment(std::size_t piece, std::size_t index) {
  const Buffer& memory = slot(piece).memory;
  std::byte* const values = memory.data() + place(piece, 1 + index).begin;
  std::byte* const scales =
      values + pieces_[piece].extent.count * optim::moment_element_bytes(kept_.moments);
  return {values, reinterpret_cast<float*>(scales)};
}

void OptimizerRecords::fetch(std::size_t piece) {
  Slot& to = slot(piece);
  file_.wait(to.under_way);
  to.under_way = file_.read(layout_.begin[piece], to.memory.span().first(bytes_of(piece)));
}

void OptimizerRecords::arrive(std::size_t piece) { file_.wait(slot(piece).under_way); }

void OptimizerRecords::send(std::size_t piece) {
  Slot& from = slot(piece);
  from.under_way = file_.write(layout_.begin[piece], from.memory.span().first(bytes_of(piece)));
}

void OptimizerRecords::clear(std::size_t piece) {
  arrive(piece);
  std::ranges::fill(slot(piece).memory.span(), std::byte{0});
}

void OptimizerRecords::drain() {
  for (const Slot& each : slots_) file_.wait(each.under_way);
}

template <class Body>
void OptimizerRecords::for_each_part(std::size_t unit, const Array& array, const Extent& part,
                                     bool write, const Body& body) {
  drain();
  const std::size_t size = array.element_bytes;
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const Extent& extent = pieces_[piece].extent;
    const Extent here{extent.begin / array.elements, ceil_div(extent.count, array.elements)};
    const std::size_t first = std::max(part.begin, here.begin);
    const std::size_t last = std::min(part.begin + part.count, here.begin + here.count);
    if (pieces_[piece].unit != unit || first >= last) continue;
    const Extent in_record = place(piece, array.index);
    const auto memory = slot(piece).memory.span().first(in_record.count);
    const std::uint64_t at = layout_.begin[piece] + in_record.begin;
    file_.wait(file_.read(at, memory));
    const std::size_t values =
        array.scales ? extent.count * optim::moment_element_bytes(kept_.moments) : 0;
    body((first - part.begin) * size,
         memory.subspan(values + (first - here.begin) * size, (last - first) * size));
    if (write) file_.wait(file_.write(at, memory));
  }
}

void OptimizerRecords::read(std::size_t unit, const Array& array, const Extent& part,
                            std::span<std::byte> to) {
  for_each_part(unit, array, part, false, [&](std::size_t at, std::span<std::byte> values) {
    std::memcpy(to.data() + at, values.data(), values.size());
  });
}

void OptimizerRecords::write(std::size_t unit, const Array& array, const Extent& part,
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
