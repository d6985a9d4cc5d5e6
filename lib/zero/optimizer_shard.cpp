#include "lib/zero/optimizer_shard.hpp"

#include <algorithm>

namespace zeropp::zero {

template <class Body>
void OptimizerShard::for_each_piece(std::size_t unit, const Body& body) const {
  const std::size_t begin = sharded_ ? rank_ * partitions_[unit].shard : 0;
  const std::size_t end = begin + count(unit);
  for (const Tensor& tensor : layout_[unit].tensors) {
    const std::size_t first = std::max(begin, tensor.offset);
    const std::size_t last = std::min(end, tensor.offset + tensor.count());
    if (first < last) body(tensor, first - tensor.offset, first - begin, last - first);
  }
}

OptimizerShard::OptimizerShard(const std::vector<Unit>& units,
                               const std::vector<UnitPartition>& partitions, bool sharded,
                               std::size_t rank, std::uint64_t seed,
                               const optim::AdamWOptions& options, const Device& device,
                               StreamHandle stream)
    : layout_(units),
      partitions_(partitions),
      sharded_(sharded),
      rank_(rank),
      options_(options),
      device_(device) {
  std::uint64_t tensors_before = 0;
  for (std::size_t unit = 0; unit < layout_.size(); ++unit) {
    const std::size_t n = count(unit);
    units_.push_back({Buffer::zeros(n, Dtype::fp32, device_.memory),
                      Buffer::zeros(n, Dtype::fp32, device_.memory),
                      Buffer::zeros(n, Dtype::fp32, device_.memory)});
    for_each_piece(unit, [&](const Tensor& tensor, std::size_t in_tensor, std::size_t in_part,
                             std::size_t length) {
      const auto id =
          tensors_before + static_cast<std::uint64_t>(&tensor - layout_[unit].tensors.data());
      device_.optim->initialize(seed, id, in_tensor, length, tensor.init.constant,
                                tensor.init.scale, master(unit).part(in_part, length).as<float>(),
                                stream);
    });
    tensors_before += layout_[unit].tensors.size();
  }
  std::size_t scratch = 0;
  std::size_t shards = 1;
  for (const UnitPartition& partition : partitions_) {
    scratch = std::max(scratch, optim::norm_scratch(partition.shard));
    if (!sharded_) shards = partition.padded / partition.shard;
  }
  norms_ = Buffer((shards * partitions_.size() + scratch) * sizeof(double), device_.memory);
}

ConstView OptimizerShard::canonical_master(std::size_t unit) const {
  const std::size_t shard = partitions_[unit].shard;
  return ConstView(master(unit)).part(sharded_ ? 0 : rank_ * shard, shard);
}

std::vector<double> OptimizerShard::squared_norms(const std::vector<View>& gradients,
                                                  const Stream& stream) const {
  const std::size_t shards = sharded_ ? 1 : partitions_.front().padded / partitions_.front().shard;
  const std::size_t units = gradients.size();
  auto* const sums = reinterpret_cast<double*>(norms_.data());
  double* const scratch = sums + shards * units;
  for (std::size_t s = 0; s < shards; ++s) {
    for (std::size_t unit = 0; unit < units; ++unit) {
      const std::size_t shard = partitions_[unit].shard;
      device_.optim->sum_of_squares(shard, gradients[unit].part(s * shard, shard).as<float>(),
                                    scratch, sums + s * units + unit, stream.handle());
    }
  }
  std::vector<double> by_unit(shards * units);
  device_.memory_ops->copy({sums, 2 * by_unit.size(), Dtype::fp32, device_.memory},
                           {by_unit.data(), 2 * by_unit.size(), Dtype::fp32}, stream.handle());
  stream.synchronize();
  std::vector<double> totals(shards, 0.0);
  for (std::size_t i = 0; i < by_unit.size(); ++i) totals[i / units] += by_unit[i];
  return totals;
}

void OptimizerShard::update(std::size_t unit, ConstView gradient, std::uint64_t t,
                            double gradient_scale, View shard, StreamHandle stream) {
  const optim::AdamWConstants constants = optim::adamw_constants(options_, t, gradient_scale);
  for_each_piece(unit, [&](const Tensor& tensor, std::size_t, std::size_t at, std::size_t length) {
    device_.optim->adamw(constants, tensor.decay, length, gradient.part(at, length).as<float>(),
                         master(unit).part(at, length).as<float>(),
                         first_moment(unit).part(at, length).as<float>(),
                         second_moment(unit).part(at, length).as<float>(),
                         shard.count == 0 ? shard : View(shard.part(at, length)), stream);
  });
}

std::size_t OptimizerShard::master_bytes() const {
  std::size_t total = 0;
  for (const State& state : units_) total += state.master.bytes();
  return total;
}

std::size_t OptimizerShard::moment_bytes() const {
  std::size_t total = 0;
  for (const State& state : units_) total += state.m.bytes() + state.v.bytes();
  return total;
}

}  // namespace zeropp::zero
