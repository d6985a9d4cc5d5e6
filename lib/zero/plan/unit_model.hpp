// Interface of a model to the ZeRO engine: units of parameters, and layers that use them. The
// engine owns parameters and gradients and calls forward and backward; a model owns its activations
// and never calls the engine. Sizes are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::zero {

/// Initial values of master weights: constant, or standard_normal * scale keyed by (seed, tensor,
/// element).
struct Init {
  float constant = 0.0F;
  float scale = 0.0F;
};

struct Tensor {
  std::string name;  ///< unique in the model, e.g. "h.3.attn.qkv.weight"
  std::vector<std::size_t> shape;
  Init init;
  bool decay = true;       ///< weight decay applies, where it is that of matrices
  std::size_t offset = 0;  ///< elements from the unit's begin; set by layout_unit()

  [[nodiscard]] std::size_t count() const;
};

/// Parameters that are gathered, reduced and freed together: one flat buffer.
struct Unit {
  std::string name;
  std::vector<Tensor> tensors;
  std::size_t count = 0;  ///< elements of the flat buffer, alignment between tensors included
  /// A micro-step writes each tensor's gradient once, as a whole: it may be asked for in the
  /// compute dtype, and is then rounded once.
  bool gradients_written_once = false;

  [[nodiscard]] std::size_t parameters() const;  ///< elements without alignment
};

/// Gives each tensor its offset, aligned to 256 bytes in fp32 (64 elements), and the unit its
/// count.
Unit layout_unit(std::string name, std::vector<Tensor> tensors);

/// Kind of the units of that name: the name up to its first dot, without the number of the unit;
/// "h", GPT-2's name of a block, is "block". Kinds are "embedding", "block", "head"; "q" of the
/// quadratic.
std::string unit_kind(std::string_view unit_name);

/// One step of forward (and, in reverse, of backward): the units whose parameters it reads.
/// A unit may be used by several layers (a tied head reads the embedding again); its gradient is
/// reduced once, after its last use in backward.
struct Layer {
  std::string name;
  std::vector<std::size_t> units;
};

/// One micro-batch: `sequences` rows of `length` tokens and their targets.
struct Batch {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::span<const std::int32_t> tokens;   ///< sequences * length
  std::span<const std::int32_t> targets;  ///< sequences * length
  float loss_scale = 1.0F;                ///< gradients are those of the loss times this
};

/// Memory in which a layer's backward leaves the gradient of one unit.
struct Gradient {
  /// The gradient, in the layout of the unit; fp32, or the compute dtype where
  /// Unit::gradients_written_once.
  View values;
  /// The tensors hold nothing yet: each of them is written, with zeros where this layer does not
  /// use it. Otherwise added to.
  bool fresh = false;
};

/// Predicted and actual bytes of one kind of memory.
struct MemoryReport {
  std::string name;
  std::size_t predicted = 0;
  std::size_t actual = 0;
};

/// Work is enqueued on the given stream and nothing waits for it; begin() may wait for the copy of
/// an earlier micro-batch's tokens. All calls are given the same stream.
class UnitModel {
 public:
  virtual ~UnitModel() = default;
  [[nodiscard]] virtual const std::vector<Unit>& units() const = 0;
  [[nodiscard]] virtual const std::vector<Layer>& layers() const = 0;

  /// Begins a micro-batch. `train`: keep what backward needs.
  virtual void begin(const Batch& batch, bool train, StreamHandle stream) = 0;
  /// Computes a layer's forward. `weights[i]`: the flat buffer of unit layers()[layer].units[i], in
  /// the compute dtype.
  virtual void forward(std::size_t layer, std::span<const ConstView> weights,
                       StreamHandle stream) = 0;
  /// Writes to `gradients[i]` of unit layers()[layer].units[i], or adds: the gradient of the
  /// micro-batch's mean loss, times its loss_scale. Memory between tensors is left alone.
  virtual void backward(std::size_t layer, std::span<const ConstView> weights,
                        std::span<const Gradient> gradients, StreamHandle stream) = 0;
  /// *loss = sum of the mean losses, nats per token, of the micro-batches whose last layer ran
  /// forward since the last call; written when the stream comes this far. `loss`: host memory, of
  /// Device::staging().
  virtual void take_loss(double* loss, StreamHandle stream) = 0;
  /// Floating-point operations of forward + backward a token (for MFU), by the formula in its
  /// documentation.
  [[nodiscard]] virtual double flops_per_token() const = 0;
  /// Floating-point operations a token, with those that backward computes a second time because
  /// forward did not keep the result (for HFU).
  [[nodiscard]] virtual double hardware_flops_per_token() const { return flops_per_token(); }
  /// Names of the kernels that run where there are several for one purpose: "attention=cudnn
  /// 9.14.0".
  [[nodiscard]] virtual std::string kernels() const { return {}; }
  /// Bytes of the model's own memory: activations, workspace, tokens. In closed form, and held.
  [[nodiscard]] virtual MemoryReport memory() const { return {"activations", 0, 0}; }
  /// Bytes of the model's memory that lie on the host instead, in closed form, and held; empty
  /// where nothing does.
  [[nodiscard]] virtual std::vector<MemoryReport> offloaded_memory() const { return {}; }
};

}  // namespace zeropp::zero
