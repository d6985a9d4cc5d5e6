#include "lib/model/batch_input.hpp"

#include <algorithm>

namespace zeropp::model {

BatchInput::BatchInput(std::size_t most_tokens, const Device& device)
    : runtime_(*device.runtime),
      ops_(*device.memory_ops),
      memory_(2 * most_tokens * sizeof(std::int32_t), device.memory),
      tokens_(reinterpret_cast<std::int32_t*>(memory_.data())) {
  for (Slot& slot : slots_) slot.memory = Buffer(memory_.bytes(), device.staging());
}

void BatchInput::load(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                      StreamHandle stream) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  count_ = tokens.size();
  slot.copied.synchronize();
  auto* const staged = reinterpret_cast<std::int32_t*>(slot.memory.data());
  std::copy(targets.begin(), targets.end(), std::copy(tokens.begin(), tokens.end(), staged));
  // Four bytes per element: the views are of bytes, not of numbers.
  ops_.copy(slot.memory.view(2 * count_, Dtype::fp32), memory_.view(2 * count_, Dtype::fp32),
            stream);
  Stream::borrow(runtime_, stream).record(slot.copied);
}

}  // namespace zeropp::model
