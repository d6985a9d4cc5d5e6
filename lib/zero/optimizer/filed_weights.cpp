#include "lib/zero/optimizer/filed_weights.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace zeropp::zero {

FiledWeights::FiledWeights(const std::vector<OffloadPiece>& pieces, std::vector<bool> filed,
                           const Options& options, const Device& device)
    : filed_(std::move(filed)),
      element_(size_of(options.compute)),
      layout_(weights_layout(pieces, filed_, options.compute)),
      records_(filed_.size()),
      file_(options.offload_param.nvme_path, layout_.bytes, options.aio) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const OffloadPiece& piece = pieces[i];
    piece_bytes_.push_back(filed_bytes(piece.extent.count, element_));
    if (!filed_[piece.unit]) continue;
    Record& record = records_[piece.unit];
    if (record.parts.empty()) record.begin = layout_.begin[i];
    record.parts.push_back({piece.extent.begin, piece.extent.count, record.bytes});
    record.bytes += piece_bytes_.back();
  }
  const WeightBuffers plan = weight_buffers(pieces, filed_, options.compute, options.offload_param);
  for (std::size_t i = 0; i < plan.buffers; ++i) {
    slots_.emplace_back().memory = Buffer(plan.bytes, device.staging());
  }
}

AsyncFile::Transfer FiledWeights::write(std::size_t piece, std::span<const std::byte> memory) {
  return file_.write(layout_.begin[piece], memory.first(piece_bytes_[piece]));
}

void FiledWeights::expect(std::vector<std::size_t> units) {
  for (std::size_t i = brought_; i < fetched_; ++i) {
    file_.wait(slots_[i % slots_.size()].arrives);  // of a schedule that was not run to its end
  }
  expected_ = std::move(units);
  fetched_ = brought_ = 0;
  const std::size_t first = std::min(pieces_prefetched(slots_.size()), expected_.size());
  while (fetched_ < first) fetch(fetched_);
}

void FiledWeights::fetch(std::size_t number) {
  Slot& to = slots_[number % slots_.size()];
  to.left.synchronize();
  const Record& record = records_[expected_[number]];
  to.arrives = file_.read(record.begin, to.memory.span().first(record.bytes));
  fetched_ = number + 1;
}

void FiledWeights::bring(std::size_t unit, std::byte* to, const Stream& stream) {
  if (brought_ == expected_.size()) expect({unit});
  const std::size_t number = brought_++;
  if (expected_[number] != unit) throw std::logic_error("weights are gathered out of order");
  const std::size_t last = number + pieces_prefetched(slots_.size());
  while (fetched_ < std::min(last + 1, expected_.size())) fetch(fetched_);
  Slot& slot = slots_[number % slots_.size()];
  file_.wait(slot.arrives);
  for (const Part& part : records_[unit].parts) {
    stream.copy(to + part.elements * element_, slot.memory.data() + part.at, part.count * element_);
  }
  stream.record(slot.left);
}

std::size_t FiledWeights::bytes() const {
  std::size_t total = 0;
  for (const Slot& each : slots_) total += each.memory.bytes();
  return total;
}

}  // namespace zeropp::zero
