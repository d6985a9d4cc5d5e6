#include "lib/model/kept_inputs.hpp"

#include "lib/model/transformer_sizes.hpp"

namespace zeropp::model {

KeptInputs::KeptInputs(const Options& options, std::span<const View> inputs, const Device& device)
    : options_(options),
      runtime_(*device.runtime),
      memory_(kept_input_bytes(options, inputs.front().bytes()), device.staging()) {
  if (offloaded_inputs(options) == 0) return;
  for (std::size_t turn = 0; turn < kInputSlots; ++turn) {
    slots_[turn].input = inputs[turn * options.recompute_interval];
  }
  copies_ = device.make_stream("kept inputs");
}

std::byte* KeptInputs::on_host(std::size_t turn) const {
  return memory_.data() + turn * aligned_bytes(slots_.front().input.bytes());
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
