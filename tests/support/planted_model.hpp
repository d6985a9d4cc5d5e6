// A model that another one is, but for values that are written into its gradients.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "lib/device/device.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/wrapped_model.hpp"

namespace zeropp::test {

inline constexpr int kEveryRank = -1;

/// Value to write into the gradient of a layer's first unit, at the begin of the unit's last
/// tensor.
struct Plant {
  float value = 0;
  int rank = kEveryRank;
  std::size_t layer = 0;
};
/// Plants by training step.
using Plants = std::map<std::size_t, Plant>;

class PlantedModel final : public WrappedModel {
 public:
  PlantedModel(std::unique_ptr<zero::UnitModel> model, Plants planted, std::size_t micro_steps = 1)
      : WrappedModel(std::move(model)), plants(std::move(planted)), micro_steps_(micro_steps) {}

  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override {
    begun_ += train ? 1 : 0;
    WrappedModel::begin(batch, train, stream);
  }
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override {
    WrappedModel::backward(layer, weights, gradients, stream);
    // The value is planted in the first micro-step: what follows must not hide it.
    if ((begun_ - 1) % micro_steps_ != 0) return;
    const auto found = plants.find((begun_ - 1) / micro_steps_);
    if (found == plants.end()) return;
    const Plant& plant = found->second;
    const bool here = plant.rank == kEveryRank || plant.rank == world().control().rank();
    if (plant.layer != layer || !here) return;
    const std::size_t at = units()[layers()[layer].units.front()].tensors.back().offset;
    const Device& on = device();
    on.memory_ops->copy(ConstView::of(&plant.value, 1), gradients.front().values.part(at, 1),
                        stream);
    on.runtime->synchronize(stream.native);
  }

  Plants plants;  ///< of steps to come; may change

 private:
  std::size_t micro_steps_;
  std::size_t begun_ = 0;
};

}  // namespace zeropp::test
