// A model with all its weights and gradients in one process: what a test needs to call forward and
// backward without the ZeRO engine, on the host or on a GPU. Masters and gradients are fp32 in host
// memory; what the model reads is cut from them in the compute dtype and lies in the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/unit_model.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::test {

class LocalModel {
 public:
  /// `device` and `compute` are those that the model was made with.
  explicit LocalModel(zero::UnitModel& model, Dtype compute = Dtype::fp32,
                      const Device& device = Device::host())
      : model_(model),
        compute_(compute),
        device_(device),
        own_stream_(device.make_stream("model")),
        loss_(sizeof(double), device.staging()) {
    stream = own_stream_.handle();
    for (const zero::Unit& unit : model.units()) {
      masters.emplace_back(unit.count, 0.0F);
      gradients.emplace_back(unit.count, 0.0F);
      weights_.emplace_back(unit.count * size_of(compute), device.memory);
      sums_.emplace_back(unit.count * sizeof(float), device.memory);
    }
  }

  /// The initial weights that the model asks for, each value moved by `jitter` standard normals:
  /// with a jitter no bias is zero and no layernorm weight is one.
  void initialise(std::uint64_t seed, float jitter = 0.0F) {
    std::uint64_t tensors = 0;
    for (std::size_t u = 0; u < model_.units().size(); ++u) {
      for (const zero::Tensor& tensor : model_.units()[u].tensors) {
        ++tensors;
        for (std::size_t i = 0; i < tensor.count(); ++i) {
          masters[u][tensor.offset + i] =
              tensor.init.constant +
              (tensor.init.scale + jitter) * standard_normal(seed, tensors, i);
        }
      }
    }
  }

  /// Mean loss of the batch.
  double forward(const zero::Batch& batch, bool train) {
    run_forward(batch, train);
    return take_loss();
  }

  /// Sum of the mean losses since the last call.
  double take_loss() {
    auto* const loss = reinterpret_cast<double*>(loss_.data());
    model_.take_loss(loss, stream);
    synchronize();
    return *loss;
  }

  /// Forward only: the loss stays in the model.
  void run_forward(const zero::Batch& batch, bool train) {
    upload_weights();
    enqueue_forward(batch, train);
  }

  /// Forward with the weights of the last run; waits for nothing.
  void enqueue_forward(const zero::Batch& batch, bool train) {
    model_.begin(batch, train, stream);
    for (std::size_t layer = 0; layer < model_.layers().size(); ++layer) {
      model_.forward(layer, weights_of(layer), stream);
    }
  }

  /// Adds the gradient of the batch that forward() saw to `gradients`; with `fresh`, whose content
  /// does not count then, writes it.
  void backward(bool fresh = false) {
    for (std::size_t u = 0; u < gradients.size(); ++u) copy(host(gradients[u]), sums(u));
    std::vector<bool> is_fresh(gradients.size(), fresh);
    for (std::size_t layer = model_.layers().size(); layer-- > 0;) {
      std::vector<zero::Gradient> into;
      for (const std::size_t u : model_.layers()[layer].units) {
        into.push_back({sums(u), is_fresh[u]});
        is_fresh[u] = false;
      }
      model_.backward(layer, weights_of(layer), into, stream);
    }
    for (std::size_t u = 0; u < gradients.size(); ++u) copy(sums(u), host(gradients[u]));
    synchronize();
  }

  StreamHandle stream;                        ///< that the model is given
  std::vector<std::vector<float>> masters;    ///< by unit
  std::vector<std::vector<float>> gradients;  ///< by unit

 private:
  static View host(std::vector<float>& values) { return View::of(values.data(), values.size()); }
  [[nodiscard]] View sums(std::size_t unit) const {
    return sums_[unit].view(gradients[unit].size(), Dtype::fp32);
  }
  void copy(ConstView from, View to) const { device_.memory_ops->copy(from, to, stream); }
  void synchronize() const { Stream::borrow(*device_.runtime, stream).synchronize(); }

  void upload_weights() {
    for (std::size_t u = 0; u < masters.size(); ++u) {
      const std::size_t count = masters[u].size();
      const std::vector<std::byte> bytes = stored(masters[u], compute_);
      copy({bytes.data(), count, compute_}, weights_[u].view(count, compute_));
      synchronize();
    }
  }

  [[nodiscard]] std::vector<ConstView> weights_of(std::size_t layer) const {
    std::vector<ConstView> views;
    for (const std::size_t u : model_.layers()[layer].units) {
      views.emplace_back(weights_[u].view(masters[u].size(), compute_));
    }
    return views;
  }

  zero::UnitModel& model_;
  Dtype compute_;
  Device device_;
  Stream own_stream_;
  Buffer loss_;
  std::vector<Buffer> weights_;  ///< in the compute dtype, by unit
  std::vector<Buffer> sums_;     ///< gradients where the model adds to them, by unit
};

}  // namespace zeropp::test
