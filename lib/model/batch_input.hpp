// Tokens and targets of a micro-batch in the memory of a back end. They pass through two slots of
// pinned memory in turn, so that the copy to a GPU is asynchronous: a slot is written again when
// its last copy is done, two micro-batches later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp::model {

class BatchInput {
 public:
  /// Throws Error(environment) when there is no memory for `most_tokens` tokens and targets.
  BatchInput(std::size_t most_tokens, const Device& device);

  /// Enqueues the copy; both spans are of one length, at most `most_tokens`, and may go when this
  /// returns. The stream is the one that reads the last micro-batch's, so that it is not
  /// overwritten too early.
  void load(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
            StreamHandle stream);

  /// Tokens and targets of the micro-batch that was loaded last, in the back end's memory.
  [[nodiscard]] const std::int32_t* tokens() const { return tokens_; }
  [[nodiscard]] const std::int32_t* targets() const { return tokens_ + count_; }

  /// Bytes in the back end's memory.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  struct Slot {
    Buffer memory;  ///< tokens, then targets
    Event copied;
  };

  const Runtime& runtime_;
  const MemoryOps& ops_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;  ///< slot
  Buffer memory_;         ///< tokens, then targets
  std::int32_t* tokens_;
  std::size_t count_ = 0;  ///< tokens
};

}  // namespace zeropp::model
