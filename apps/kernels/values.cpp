#include "apps/kernels/values.hpp"

#include <cmath>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kTile = 1'048'573;  // a prime
constexpr std::size_t kStep = 104'729;    // from the begin of one array in the tile to the next

std::size_t offset_of(std::size_t stream) { return stream * kStep % kTile; }

}  // namespace

float Values::exact(std::size_t place) const {
  const float value = scale_ * (*tile_)[place];
  return magnitude_ ? std::fabs(value) : value;
}

float Values::operator()(std::size_t i) const {
  const float value = exact((i + offset_) % kTile);
  return with_type(dtype_, [&]<class T>(T*) { return to_float(saturating_cast<T>(value)); });
}

void Values::fill(View memory, std::size_t first) const {
  with_type(dtype_, [&]<class T>(T*) {
    T* const to = memory.as<T>();
    std::size_t place = (first + offset_) % kTile;
    for (std::size_t i = 0; i < memory.count; ++i) {
      to[i] = saturating_cast<T>(exact(place));
      if (++place == kTile) place = 0;
    }
  });
}

Source::Source(std::uint64_t seed) : seed_(seed) {
  auto tile = std::make_shared<std::vector<float>>(kTile);
  for (std::size_t i = 0; i < kTile; ++i) (*tile)[i] = standard_normal(seed, 0, i);
  tile_ = std::move(tile);
}

Values Source::normals(std::size_t stream, Dtype dtype, float scale) const {
  return {tile_, offset_of(stream), dtype, scale, false};
}

Values Source::magnitudes(std::size_t stream, Dtype dtype, float scale) const {
  return {tile_, offset_of(stream), dtype, scale, true};
}

std::int32_t Source::token(std::size_t i, std::size_t vocab) const {
  return static_cast<std::int32_t>(philox4x32(seed_, i, 1).word[0] % vocab);
}

}  // namespace zeropp::kernels
