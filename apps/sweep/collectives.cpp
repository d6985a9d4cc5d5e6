#include <algorithm>

#include "apps/sweep/collective.hpp"
#include "apps/sweep/entries.hpp"

namespace zeropp::sweep {

namespace {
bool has(const Collective& collective, std::string_view name, bool collective::Traits::*trait) {
  return std::ranges::any_of(collective.algorithms(), [&](const Algorithm& algorithm) {
    return algorithm.name == name && algorithm.traits.*trait;
  });
}
}  // namespace

std::size_t Collective::count(std::size_t bytes, Dtype dtype, std::size_t ranks) const {
  return elements_of_part(bytes, size_of(dtype), ranks);
}

std::size_t Collective::bytes(const Shape& shape) const {
  return shape.ranks() * shape.count * size_of(shape.dtype);
}

double Collective::bus_factor(std::size_t ranks) const {
  return static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

bool can_run(const Collective& collective, const Variant& variant) {
  return std::ranges::any_of(collective.algorithms(), [&](const Algorithm& algorithm) {
    return algorithm.name == variant.algorithm &&
           (algorithm.traits.any_codec || variant.is_lossless());
  });
}

bool is_hierarchical(const Collective& collective, std::string_view name) {
  return has(collective, name, &collective::Traits::hierarchical);
}

bool is_modelled(const Collective& collective, std::string_view name) {
  return has(collective, name, &collective::Traits::modelled);
}

bool runs_in_one_chunk(const Collective& collective, std::string_view name) {
  return has(collective, name, &collective::Traits::one_chunk);
}

Expected expected_copy(const Shape& shape, const Variant& variant, const Data& data, int source,
                       std::size_t first, std::size_t length) {
  std::vector<float> values(length);
  data.values(source, first, values);
  Expected expected{{values.begin(), values.end()}, {}};
  if (!variant.is_lossless()) {
    expected.bound = collective::through(variant.codec, shape.dtype,
                                         collective::Estimate::exact(std::move(values)))
                         .bound;
  }
  return expected;
}

const std::vector<const Collective*>& collectives() {
  static const std::vector<const Collective*> table{&all_gather(), &reduce_scatter(), &all_reduce(),
                                                    &all_to_all(), &broadcast()};
  return table;
}

}  // namespace zeropp::sweep
