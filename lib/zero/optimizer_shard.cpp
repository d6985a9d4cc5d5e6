#include "lib/zero/optimizer_shard.hpp"

#include <algorithm>

namespace zeropp::zero {

template <class Body>
void OptimizerShard::for_each_tensor(const Unit& layout, std::size_t unit, const Body& body) const {
  const std::size_t begin = sharded_ ? rank_ * partitions_[unit].shard : 0;
  const std::size_t end = begin + count(unit);
  for (const Tensor& tensor : layout.tensors) {
    const std::size_t first = std::max(begin, tensor.offset);
    const std::size_t last = std::min(end, tensor.offset + tensor.count());
    if (first < last) body(tensor, first - tensor.offset, first - begin, last - first);
  }
}

OptimizerShard::OptimizerShard(const std::vector<Unit>& units,
                               const std::vector<UnitPartition>& partitions,
                               std::span<const UnitArrays> arrays, bool sharded, std::size_t rank,
                               std::uint64_t seed, const optim::Options& options,
                               const Device& device, StreamHandle stream)
    : partitions_(partitions),
      sharded_(sharded),
      rank_(rank),
      options_(options),
      rule_(optim::variant_of(options)),
      device_(device) {
  std::uint64_t tensors_before = 0;
  std::vector<optim::UpdatePiece> pieces;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const Unit& layout = units[unit];
    const std::size_t n = count(unit);
    State& state = units_.emplace_back();
    state.master = Buffer::zeros(n, Dtype::fp32, device_.memory);
    for (std::size_t i = 0; i < rule_.states; ++i) {
      state.states.push_back(Buffer::zeros(n, Dtype::fp32, device_.memory));
    }
    for_each_tensor(
        layout, unit,
        [&](const Tensor& tensor, std::size_t in_tensor, std::size_t in_part, std::size_t length) {
          const auto id =
              tensors_before + static_cast<std::uint64_t>(&tensor - layout.tensors.data());
          device_.optim->initialize(seed, id, in_tensor, length, tensor.init.constant,
                                    tensor.init.scale,
                                    master(unit).part(in_part, length).as<float>(), stream);
        });
    tensors_before += layout.tensors.size();
    add_pieces(layout, unit, arrays[unit], pieces);
  }
  pieces_ = Table<optim::UpdatePiece>(pieces, device_);
}

void OptimizerShard::add_pieces(const Unit& layout, std::size_t unit, const UnitArrays& arrays,
                                std::vector<optim::UpdatePiece>& pieces) {
  State& state = units_[unit];
  state.first_piece = pieces.size();
  const bool narrow = arrays.follower.count > 0;
  if (narrow) follower_ = arrays.follower.dtype;
  for_each_tensor(layout, unit,
                  [&](const Tensor& tensor, std::size_t, std::size_t in_part, std::size_t length) {
                    optim::for_each_piece(
                        length, optim::kUpdatePiece, [&](std::size_t first, std::size_t elements) {
                          const std::size_t at = in_part + first;
                          const auto floats = [&](const View& array) {
                            return array.part(at, elements).as<float>();
                          };
                          optim::UpdatePiece piece{
                              .gradient = floats(arrays.gradient),
                              .weight = floats(master(unit)),
                              .state = {},
                              .narrow = narrow ? arrays.follower.part(at, elements).data : nullptr,
                              .count = static_cast<std::uint32_t>(elements),
                              .decay = tensor.decay};
                          for (std::size_t i = 0; i < rule_.states; ++i) {
                            piece.state[i] = floats(this->state(unit, i));
                          }
                          pieces.push_back(piece);
                        });
                  });
  state.pieces = pieces.size() - state.first_piece;
}

void OptimizerShard::update(std::size_t unit, std::uint64_t t, float mean, double clip,
                            StreamHandle stream) {
  rule_.on(device_.memory)(
      options_, {.t = t, .scale = {.mean = mean, .clip = static_cast<float>(clip)}}, follower_,
      pieces_.all().subspan(units_[unit].first_piece, units_[unit].pieces), stream);
}

std::size_t OptimizerShard::master_bytes() const {
  std::size_t total = 0;
  for (const State& state : units_) total += state.master.bytes();
  return total;
}

std::size_t OptimizerShard::state_bytes() const {
  std::size_t total = 0;
  for (const State& unit : units_) {
    for (const Buffer& state : unit.states) total += state.bytes();
  }
  return total;
}

}  // namespace zeropp::zero
