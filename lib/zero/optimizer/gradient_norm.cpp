#include "lib/zero/optimizer/gradient_norm.hpp"

namespace zeropp::zero {

GradientNorm::GradientNorm(std::span<const View> gradients,
                           std::span<const UnitPartition> partitions, const Device& device)
    : device_(device),
      units_(gradients.size()),
      shards_(gradients.front().count / partitions.front().canonical) {
  std::size_t doubles = shards_ * units_;
  for (const UnitPartition& unit : partitions)
    doubles += shards_ * optim::norm_scratch(unit.canonical);
  sums_ = Buffer(doubles * sizeof(double), device_.memory);
  host_sums_ = Buffer(shards_ * units_ * sizeof(double), device_.staging());

  std::vector<optim::NormPiece> pieces;
  std::vector<optim::NormArray> arrays;
  auto* const sums = reinterpret_cast<double*>(sums_.data());
  double* scratch = sums + shards_ * units_;
  for (std::size_t unit = 0; unit < units_; ++unit) {
    first_piece_.push_back(pieces.size());
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      const std::size_t n = partitions[unit].canonical;
      const auto* const values = gradients[unit].part(shard * n, n).as<float>();
      optim::for_each_piece(n, optim::kNormPiece, [&](std::size_t first, std::size_t count) {
        pieces.push_back({values + first, scratch + optim::norm_blocks(first),
                          static_cast<std::uint32_t>(count)});
      });
      arrays.push_back({scratch, optim::norm_blocks(n), sums + shard * units_ + unit});
      scratch += optim::norm_scratch(n);
    }
  }
  first_piece_.push_back(pieces.size());
  pieces_ = Table<optim::NormPiece>(pieces, device_);
  arrays_ = Table<optim::NormArray>(arrays, device_);
}

void GradientNorm::start(float gradient_scale, const Stream& stream) const {
  device_.optim->sum_of_squares(gradient_scale, pieces_.all(), arrays_.all(), stream.handle());
}

void GradientNorm::start(std::size_t unit, float gradient_scale, StreamHandle stream) const {
  const std::size_t first = first_piece_[unit];
  device_.optim->sum_of_squares(gradient_scale,
                                pieces_.all().subspan(first, first_piece_[unit + 1] - first),
                                arrays_.all().subspan(unit * shards_, shards_), stream);
}

void GradientNorm::fetch(const Stream& stream) const {
  stream.copy(host_sums_.data(), sums_.data(), host_sums_.bytes());
}

std::vector<double> GradientNorm::squares() const {
  const auto* const sums = reinterpret_cast<const double*>(host_sums_.data());
  std::vector<double> totals(shards_, 0.0);
  for (std::size_t i = 0; i < shards_ * units_; ++i) totals[i / units_] += sums[i];
  return totals;
}

}  // namespace zeropp::zero
