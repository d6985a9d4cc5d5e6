#include "lib/zero/optimizer/file_weights.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace zeropp::zero {

FileWeights::FileWeights(const std::vector<OffloadPiece>& pieces, std::vector<bool> on_file,
                         const Options& options, const Device& device)
    : on_file_(std::move(on_file)),
      element_(size_of(options.compute)),
      layout_(weights_layout(pieces, on_file_, options.compute)),
      records_(on_file_.size()),
      file_(options.offload_param.nvme_path, layout_.bytes, options.aio) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const OffloadPiece& piece = pieces[i];
    piece_bytes_.push_back(file_bytes(piece.extent.count, element_));
    if (!on_file_[piece.unit]) continue;
    Record& record = records_[piece.unit];
    if (record.parts.empty()) record.begin = layout_.begin[i];
    record.parts.push_back({piece.extent.begin, piece.extent.count, record.bytes});
    record.bytes += piece_bytes_.back();
  }
  const WeightBuffers plan =
      weight_buffers(pieces, on_file_, options.compute, options.offload_param);
  for (std::size_t i = 0; i < plan.buffers; ++i) {
    slots_.emplace_back().memory = Buffer(plan.bytes, device.staging());
  }
}

AsyncFile::Transfer FileWeights::write(std::size_t piece, std::span<const std::byte> memory) {
  return file_.write(layout_.begin[piece], memory.first(piece_bytes_[piece]));
}

void FileWeights::prefetch(std::vector<std::size_t> units) {
  for (std::size_t i = uploaded_; i < fetched_; ++i) {
    file_.wait(slots_[i % slots_.size()].arrives);  // of a schedule that was not run to its end
  }
  sequence_ = std::move(units);
  fetched_ = uploaded_ = 0;
  const std::size_t first = std::min(pieces_prefetched(slots_.size()), sequence_.size());
  while (fetched_ < first) fetch(fetched_);
}

void FileWeights::fetch(std::size_t number) {
  Slot& to = slots_[number % slots_.size()];
  to.left.synchronize();
  const Record& record = records_[sequence_[number]];
  to.arrives = file_.read(record.begin, to.memory.span().first(record.bytes));
  fetched_ = number + 1;
}

void FileWeights::upload(std::size_t unit, std::byte* to, const Stream& stream) {
  if (uploaded_ == sequence_.size()) prefetch({unit});
  const std::size_t number = uploaded_++;
  if (sequence_[number] != unit) throw std::logic_error("weights are gathered out of order");
  const std::size_t last = number + pieces_prefetched(slots_.size());
  while (fetched_ < std::min(last + 1, sequence_.size())) fetch(fetched_);
  Slot& slot = slots_[number % slots_.size()];
  file_.wait(slot.arrives);
  for (const Part& part : records_[unit].parts) {
    stream.copy(to + part.elements * element_, slot.memory.data() + part.at, part.count * element_);
  }
  stream.record(slot.left);
}

std::size_t FileWeights::bytes() const {
  std::size_t total = 0;
  for (const Slot& each : slots_) total += each.memory.bytes();
  return total;
}

}  // namespace zeropp::zero
