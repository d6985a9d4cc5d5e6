// A host model under an engine on a GPU, for models that have no CUDA kernels. Every call waits for
// the stream, fetches weights and sends gradients back. Slow; the numbers are the same.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "lib/device/device.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::test {

class HostModel final : public zero::UnitModel {
 public:
  HostModel(const Device& device, std::unique_ptr<zero::UnitModel> model)
      : device_(device), model_(std::move(model)) {}

  [[nodiscard]] const std::vector<zero::Unit>& units() const override { return model_->units(); }
  [[nodiscard]] const std::vector<zero::Layer>& layers() const override { return model_->layers(); }
  void begin(const zero::Batch& batch, bool train, StreamHandle) override {
    model_->begin(batch, train, {});
  }
  void forward(std::size_t layer, std::span<const ConstView> weights,
               StreamHandle stream) override {
    std::vector<Buffer> memory;
    model_->forward(layer, fetch_all(weights, memory, stream), {});
  }
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override {
    std::vector<Buffer> memory;
    const std::vector<ConstView> host_weights = fetch_all(weights, memory, stream);
    std::vector<zero::Gradient> host_gradients;
    for (const zero::Gradient& gradient : gradients) {
      host_gradients.push_back({gradient.fresh ? poisoned(gradient.values, memory)
                                               : fetch(gradient.values, memory, stream),
                                gradient.fresh});
    }
    model_->backward(layer, host_weights, host_gradients, {});
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      // Elements between tensors are not changed.
      const ConstView whole = host_gradients[i].values;
      for (const zero::Tensor& tensor : units()[layers()[layer].units[i]].tensors) {
        device_.memory_ops->copy(whole.part(tensor.offset, tensor.count()),
                                 gradients[i].values.part(tensor.offset, tensor.count()), stream);
      }
    }
    device_.runtime->synchronize(stream.native);
  }
  /// The loss is there already: forward() waited.
  void take_loss(double* loss, StreamHandle) override { model_->take_loss(loss, {}); }
  [[nodiscard]] double flops_per_token() const override { return model_->flops_per_token(); }

 private:
  static View room_like(ConstView view, std::vector<Buffer>& memory) {
    memory.emplace_back(view.bytes(), MemoryKind::host);
    return memory.back().view(view.count, view.dtype);
  }
  /// Not-a-number everywhere: a fresh gradient is written by the model, and what the device holds
  /// there was never set.
  static View poisoned(ConstView view, std::vector<Buffer>& memory) {
    const View room = room_like(view, memory);
    std::memset(room.data, 0xff, room.bytes());
    return room;
  }
  View fetch(ConstView view, std::vector<Buffer>& memory, StreamHandle stream) const {
    const View copy = room_like(view, memory);
    device_.memory_ops->copy(view, copy, stream);
    device_.runtime->synchronize(stream.native);
    return copy;
  }
  std::vector<ConstView> fetch_all(std::span<const ConstView> views, std::vector<Buffer>& memory,
                                   StreamHandle stream) const {
    std::vector<ConstView> copies;
    for (const ConstView& view : views) copies.emplace_back(fetch(view, memory, stream));
    return copies;
  }

  Device device_;
  std::unique_ptr<zero::UnitModel> model_;
};

/// Wraps `model`, which runs on the host, for an engine on `device`.
inline std::unique_ptr<zero::UnitModel> host_model_on(const Device& device,
                                                      std::unique_ptr<zero::UnitModel> model) {
  if (device.backend == Backend::host) return model;
  return std::make_unique<HostModel>(device, std::move(model));
}

}  // namespace zeropp::test
