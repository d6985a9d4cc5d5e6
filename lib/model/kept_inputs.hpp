// Inputs that blocks that recompute keep until their backward, with Options::cpu_checkpointing, in
// the memory of the host. On the device they lie in turn in kInputSlots slots. Forward
// copies a block's input out beside the arithmetic of this block and the next; the slot is written
// again when the copy is done. Backward, as soon as a block is done with its slot, copies back the
// input that lay there before, while the block that has the other slot computes. The last
// kInputSlots inputs are still there when backward begins, and never leave.
//
// Owns the host's memory and one stream, for both directions. Where the device is the host it is
// the same copies, to another place of one memory. Without the option, and for other blocks,
// nothing happens.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/model/options.hpp"

namespace zeropp::model {

class KeptInputs {
 public:
  /// `inputs`, by block, of one size: those that take turns are views of the same slot
  /// (TransformerActivations::residual). They outlive this object. Throws Error(environment) when
  /// there is no memory.
  KeptInputs(const Options& options, std::span<const View> inputs, const Device& device);

  /// Makes `stream` wait until it may write the input of `block` in forward, or finds it there in
  /// backward.
  void await(std::size_t block, StreamHandle stream) const;
  /// Starts the copy of the input of `block` to the host: forward has written it where `stream` is
  /// now.
  void keep(std::size_t block, StreamHandle stream);
  /// Starts the copy of another block's input back to the slot of `block`: backward has read the
  /// input of `block` where `stream` is now.
  void release(std::size_t block, StreamHandle stream);

  /// Bytes on the host; in closed form kept_input_bytes() of transformer_sizes.hpp.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  struct Slot {
    View input;
    Event copied;  ///< the last copy from it or to it
  };
  [[nodiscard]] std::byte* on_host(std::size_t turn) const;
  /// Copies between a slot and its place on the host, once `stream` has come to where it is now.
  void copy(Slot& slot, std::byte* to, const std::byte* from, StreamHandle stream);

  Options options_;
  const Runtime& runtime_;
  Buffer memory_;  ///< by turn
  std::array<Slot, kInputSlots> slots_;
  Stream copies_;
  Event reached_;
};

}  // namespace zeropp::model
