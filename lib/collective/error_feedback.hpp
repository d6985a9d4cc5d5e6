// The state of error feedback (kernels/codec/feedback.hpp) of one planned reduce-scatter, or of
// several of the same parts, of which one runs at a time: for every hop that has it, what encoding
// lost of each value that this rank sends there, whichever codec encoded it. Owned by the caller
// of the collective, who decides what becomes of it: a run reads the kept errors, or what an
// earlier run since the last commit() or discard() left, and writes new ones beside them; commit()
// keeps the new, discard() the old. Work is enqueued on the streams of the runs and of the calls,
// which the caller orders.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/codec/feedback.hpp"
#include "lib/collective/plan.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp::collective {

/// Values of a row of errors that share a scale, however they are kept, are no more than this.
inline constexpr std::size_t kErrorBlock = 256;
/// Bytes of a wire image of `count` errors, and the values of such an image.
std::size_t error_image_bytes(ErrorStorage storage, std::size_t count);
std::vector<float> errors_of(ErrorStorage storage, const std::byte* image, std::size_t count);

/// The errors of one hop: `parts` rows of `count` values.
class HopErrors {
 public:
  /// Allocates errors of zero. Throws Error(environment) when there is no memory.
  HopErrors(ErrorStorage storage, std::size_t parts, std::size_t count, const Device& device);

  /// Opens the rows before, and closes them after, what a run encodes: they are fp32, element e of
  /// row r at [r * stride() + e]. `scratch`: error_scratch_bytes(), the same in both.
  codec::Errors open(std::byte* scratch, StreamHandle stream);
  void close(const std::byte* scratch, StreamHandle stream);
  [[nodiscard]] std::size_t stride() const { return stride_; }

  void commit();
  void discard() { fresh_ = true; }
  /// Forgets the kept errors.
  void reset(StreamHandle stream) const;
  /// Kept errors *= factor: gradients are scaled by that much more from now on. Exact for powers of
  /// two, but for underflow; other factors round, of rounded errors their scales.
  void rescale(float factor, StreamHandle stream) const;

  /// Elements [first, first + count) of row `part` as the next run reads them, in a wire image of
  /// `count` values in the memory of the host; `first` is a multiple of kErrorBlock. The image is
  /// there when the stream has come past this call; errors_of() decodes it.
  void copy(std::size_t part, std::size_t first, std::size_t count, std::byte* image,
            StreamHandle stream) const;

  [[nodiscard]] std::size_t elements() const { return parts_ * count_; }
  [[nodiscard]] bool has(std::size_t parts, std::size_t count) const {
    return parts == parts_ && count == count_;
  }
  /// The kept errors as they are stored, in the device's memory. After commit() another place.
  [[nodiscard]] std::span<std::byte> kept() const { return kept_.span(); }
  /// Bytes of both copies.
  [[nodiscard]] std::size_t bytes() const { return kept_.bytes() + next_.bytes(); }

 private:
  [[nodiscard]] bool rounded() const { return storage_.scale_bytes() > 0; }
  [[nodiscard]] codec::Layout rows() const { return {parts_, stride_, 1, 0, count_, count_}; }

  codec::Codec storage_;
  std::size_t parts_;
  std::size_t count_;
  std::size_t stride_;
  std::size_t image_bytes_;
  Device device_;
  Buffer kept_;
  Buffer next_;
  bool fresh_ = true;  ///< no run has written next_ since the last commit or discard
};

/// The errors of all hops of one plan, made when it is planned; plans of the same parts share them.
class ErrorFeedback {
 public:
  ErrorFeedback(FeedbackOptions options, const Device& device)
      : options_(options), device_(device) {}

  [[nodiscard]] const FeedbackOptions& options() const { return options_; }
  /// Feedback for plans: these options, with this object as the state.
  [[nodiscard]] Feedback planned() { return {options_, this}; }
  /// Errors of a hop, for an algorithm that is being planned: its hop `hop` (1 or 2) sends `parts`
  /// parts of `count` values. Null where the options leave the hop out. Throws std::logic_error
  /// where a plan before had other parts.
  HopErrors* add_hop(int hop, std::size_t parts, std::size_t count);
  /// Errors by hop - 1; null where a hop has none.
  [[nodiscard]] const std::array<std::unique_ptr<HopErrors>, 2>& hops() const { return hops_; }

 private:
  FeedbackOptions options_;
  Device device_;
  std::array<std::unique_ptr<HopErrors>, 2> hops_;
};

}  // namespace zeropp::collective
