// A model with all its weights and gradients in one process: what a test needs to call forward and
// backward without the ZeRO engine. Master weights are fp32; what the model reads is cut from them
// in the compute dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "lib/zero/unit_model.hpp"

namespace zeropp::test {

class LocalModel {
 public:
  explicit LocalModel(zero::UnitModel& model, Dtype compute = Dtype::fp32)
      : model_(model), compute_(compute) {
    for (const zero::Unit& unit : model.units()) {
      masters.emplace_back(unit.count, 0.0F);
      gradients.emplace_back(unit.count, 0.0F);
      narrow_.emplace_back(unit.count);
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
    return model_.take_loss();
  }

  /// Forward only: the loss stays in the model.
  void run_forward(const zero::Batch& batch, bool train) {
    narrow();
    model_.begin(batch, train, stream);
    for (std::size_t layer = 0; layer < model_.layers().size(); ++layer) {
      model_.forward(layer, weights_of(layer), stream);
    }
  }

  /// Adds the gradient of the batch that forward() saw to `gradients`.
  void backward() {
    for (std::size_t layer = model_.layers().size(); layer-- > 0;) {
      std::vector<View> views;
      for (const std::size_t u : model_.layers()[layer].units) {
        views.push_back(View::of(gradients[u].data(), gradients[u].size()));
      }
      model_.backward(layer, weights_of(layer), views, stream);
    }
  }

  StreamHandle stream;                        ///< that the model is given
  std::vector<std::vector<float>> masters;    ///< by unit
  std::vector<std::vector<float>> gradients;  ///< by unit

 private:
  void narrow() {
    if (compute_ != Dtype::bf16) return;
    for (std::size_t u = 0; u < masters.size(); ++u) {
      for (std::size_t i = 0; i < masters[u].size(); ++i) {
        narrow_[u][i] = round_to_bf16(masters[u][i]);
      }
    }
  }

  [[nodiscard]] std::vector<ConstView> weights_of(std::size_t layer) const {
    std::vector<ConstView> views;
    for (const std::size_t u : model_.layers()[layer].units) {
      views.push_back(compute_ == Dtype::bf16
                          ? ConstView::of(narrow_[u].data(), narrow_[u].size())
                          : ConstView::of(masters[u].data(), masters[u].size()));
    }
    return views;
  }

  zero::UnitModel& model_;
  Dtype compute_;
  std::vector<std::vector<Bf16>> narrow_;
};

}  // namespace zeropp::test
