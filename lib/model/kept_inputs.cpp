#include "lib/model/kept_inputs.hpp"

#include "lib/base/checked.hpp"

namespace zeropp::model {

namespace {

/// From one input to the next on the host.
std::size_t stride_of(std::size_t input_bytes) {
  constexpr std::size_t kAlignment = 256;
  return round_up(input_bytes, kAlignment);
}

}  // namespace

std::size_t KeptInputs::predicted_bytes(const Options& options, std::size_t input_bytes) {
  return offloaded_inputs(options) * stride_of(input_bytes);
}

KeptInputs::KeptInputs(const Options& options, std::span<const View> inputs, const Device& device)
    : options_(options),
      runtime_(*device.runtime),
      memory_(predicted_bytes(options, inputs.front().bytes()), device.staging()) {
  if (offloaded_inputs(options) == 0) return;
  for (std::size_t turn = 0; turn < kInputSlots; ++turn) {
    slots_[turn].input = inputs[turn * options.recompute_interval];
  }
  copies_ = device.make_stream("kept inputs");
}

std::byte* KeptInputs::on_host(std::size_t turn) const {
  return memory_.data() + turn * stride_of(slots_.front().input.bytes());
}

void KeptInputs::copy(Slot& slot, std::byte* to, const std::byte* from, StreamHandle stream) {
  Stream::borrow(runtime_, stream).record(reached_);
  copies_.wait(reached_);
  copies_.copy(to, from, slot.input.bytes());
  copies_.record(slot.copied);
}

void KeptInputs::await(std::size_t block, StreamHandle stream) const {
  const auto turn = turn_of(options_, block);
  if (turn) Stream::borrow(runtime_, stream).wait(slots_[*turn % kInputSlots].copied);
}

void KeptInputs::keep(std::size_t block, StreamHandle stream) {
  const auto turn = turn_of(options_, block);
  if (!turn || *turn >= offloaded_inputs(options_)) return;
  Slot& slot = slots_[*turn % kInputSlots];
  copy(slot, on_host(*turn), slot.input.as<std::byte>(), stream);
}

void KeptInputs::release(std::size_t block, StreamHandle stream) {
  const auto turn = turn_of(options_, block);
  if (turn.value_or(0) < kInputSlots) return;
  Slot& slot = slots_[*turn % kInputSlots];
  copy(slot, slot.input.as<std::byte>(), on_host(*turn - kInputSlots), stream);
}

}  // namespace zeropp::model
