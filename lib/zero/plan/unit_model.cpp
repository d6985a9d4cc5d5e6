#include "lib/zero/plan/unit_model.hpp"

#include <functional>
#include <numeric>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {
constexpr std::size_t kTensorAlignment = 64;  // elements: 256 bytes in fp32
}

std::size_t Tensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t Unit::parameters() const {
  return std::transform_reduce(tensors.begin(), tensors.end(), std::size_t{0}, std::plus<>(),
                               [](const Tensor& tensor) { return tensor.count(); });
}

Unit layout_unit(std::string name, std::vector<Tensor> tensors) {
  Unit unit{.name = std::move(name), .tensors = std::move(tensors), .count = 0};
  for (Tensor& tensor : unit.tensors) {
    tensor.offset = unit.count;
    unit.count = round_up(tensor.offset + tensor.count(), kTensorAlignment);
  }
  return unit;
}

std::string unit_kind(std::string_view unit_name) {
  const std::string_view kind = unit_name.substr(0, unit_name.find('.'));
  return kind == "h" ? "block" : std::string(kind);
}

}  // namespace zeropp::zero
