#include "lib/collective/error_feedback.hpp"

#include <stdexcept>
#include <utility>

#include "kernels/codec/wire.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/defect.hpp"

namespace zeropp::collective {

namespace {

codec::CodecSpec spec_of(ErrorStorage storage) {
  return storage == ErrorStorage::int8 ? codec::CodecSpec{"int8", kErrorBlock, {}}
                                       : codec::CodecSpec{};
}

/// Elements from one row of fp32 errors to the next.
std::size_t row_stride(std::size_t count) {
  return round_up(count, codec::kWireAlignment / sizeof(float));
}

}  // namespace

std::size_t error_image_bytes(ErrorStorage storage, std::size_t count) {
  return codec::Codec(spec_of(storage), Dtype::fp32).wire_bytes(count);
}

std::vector<float> errors_of(ErrorStorage storage, const std::byte* image, std::size_t count) {
  std::vector<float> values(count);
  codec::Codec(spec_of(storage), Dtype::fp32)
      .decode({image, error_image_bytes(storage, count)}, codec::Layout::contiguous(count),
              View::of(values.data(), count), {});
  return values;
}

std::size_t error_bytes(ErrorStorage storage, std::size_t parts, std::size_t count) {
  return 2 * parts * error_image_bytes(storage, count);
}

std::size_t error_scratch_bytes(ErrorStorage storage, std::size_t parts, std::size_t count) {
  return storage == ErrorStorage::int8 ? parts * row_stride(count) * sizeof(float) : 0;
}

HopErrors::HopErrors(ErrorStorage storage, std::size_t parts, std::size_t count,
                     const Device& device)
    : storage_(spec_of(storage), Dtype::fp32, device.backend),
      parts_(parts),
      count_(count),
      stride_(row_stride(count)),
      image_bytes_(storage_.wire_bytes(count)),
      device_(device),
      kept_(Buffer::zeros(parts * image_bytes_ / sizeof(float), Dtype::fp32, device.memory)),
      next_(Buffer::zeros(parts * image_bytes_ / sizeof(float), Dtype::fp32, device.memory)) {}

codec::Errors HopErrors::open(std::byte* scratch, StreamHandle stream) {
  const Buffer& from = fresh_ ? kept_ : next_;
  if (defect::planted(defect::Kind::feedback_reset)) reset(stream);
  if (!rounded()) {
    return {reinterpret_cast<const float*>(from.data()), reinterpret_cast<float*>(next_.data())};
  }
  auto* const values = reinterpret_cast<float*>(scratch);
  storage_.decode({from.data(), image_bytes_}, rows(),
                  View::of(values, parts_ * stride_, device_.memory), stream);
  return {values, values};
}

void HopErrors::close(const std::byte* scratch, StreamHandle stream) {
  fresh_ = false;
  if (!rounded()) return;
  const auto* const values = reinterpret_cast<const float*>(scratch);
  storage_.encode(ConstView::of(values, parts_ * stride_, device_.memory), rows(),
                  {next_.data(), image_bytes_}, stream);
}

void HopErrors::copy(std::size_t part, std::size_t first, std::size_t count, std::byte* image,
                     StreamHandle stream) const {
  const std::byte* const row = (fresh_ ? kept_ : next_).data() + part * image_bytes_;
  const auto copy_bytes = [&](std::size_t from, std::size_t to, std::size_t bytes) {
    device_.memory_ops->copy({row + from, bytes / sizeof(Bf16), Dtype::bf16, device_.memory},
                             {image + to, bytes / sizeof(Bf16), Dtype::bf16}, stream);
  };
  const std::size_t payload = rounded() ? 1 : sizeof(float);  // bytes of a value
  const std::size_t scales = storage_.scale_offset(count);
  copy_bytes(first * payload, 0, rounded() ? scales : count * payload);
  if (!rounded()) return;
  copy_bytes(storage_.scale_offset(count_) + first / kErrorBlock * storage_.scale_bytes(), scales,
             ceil_div(count, kErrorBlock) * storage_.scale_bytes());
}

void HopErrors::commit() {
  if (!fresh_) std::swap(kept_, next_);
  fresh_ = true;
}

void HopErrors::reset(StreamHandle stream) const {
  device_.memory_ops->clear(kept_.view(kept_.bytes() / sizeof(float), Dtype::fp32), stream);
}

void HopErrors::rescale(float factor, StreamHandle stream) const {
  const auto& ops = codec::feedback_ops(device_.backend);
  if (!rounded()) {
    ops.scale(factor, kept_.view(kept_.bytes() / sizeof(float), Dtype::fp32), stream);
    return;
  }
  const std::size_t offset = storage_.scale_offset(count_);
  for (std::size_t part = 0; part < parts_; ++part) {
    ops.scale(factor,
              kept_.view((image_bytes_ - offset) / sizeof(Bf16), Dtype::bf16,
                         part * image_bytes_ + offset),
              stream);
  }
}

HopErrors* ErrorFeedback::add_hop(int hop, std::size_t parts, std::size_t count) {
  if (!options_.in(hop)) return nullptr;
  auto& errors = hops_.at(static_cast<std::size_t>(hop - 1));
  if (!errors) errors = std::make_unique<HopErrors>(options_.storage, parts, count, device_);
  if (!errors->has(parts, count)) {
    throw std::logic_error("error feedback: plans of other parts share it");
  }
  return errors.get();
}

}  // namespace zeropp::collective
