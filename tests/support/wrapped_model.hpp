// A model that is another one in every call: what derives from it changes the calls that it is
// about. Owns the other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::test {

class WrappedModel : public zero::UnitModel {
 public:
  explicit WrappedModel(std::unique_ptr<zero::UnitModel> model) : model_(std::move(model)) {}

  [[nodiscard]] const std::vector<zero::Unit>& units() const override { return model_->units(); }
  [[nodiscard]] const std::vector<zero::Layer>& layers() const override { return model_->layers(); }
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override {
    model_->begin(batch, train, stream);
  }
  void forward(std::size_t layer, std::span<const ConstView> weights,
               StreamHandle stream) override {
    model_->forward(layer, weights, stream);
  }
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override {
    model_->backward(layer, weights, gradients, stream);
  }
  void take_loss(double* loss, StreamHandle stream) override { model_->take_loss(loss, stream); }
  [[nodiscard]] double flops_per_token() const override { return model_->flops_per_token(); }
  [[nodiscard]] double hardware_flops_per_token() const override {
    return model_->hardware_flops_per_token();
  }
  [[nodiscard]] std::string kernels() const override { return model_->kernels(); }
  [[nodiscard]] zero::MemoryReport memory() const override { return model_->memory(); }
  [[nodiscard]] std::vector<zero::MemoryReport> offloaded_memory() const override {
    return model_->offloaded_memory();
  }

 private:
  std::unique_ptr<zero::UnitModel> model_;
};

}  // namespace zeropp::test
