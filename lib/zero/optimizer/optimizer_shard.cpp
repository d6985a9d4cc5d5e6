#include "lib/zero/optimizer/optimizer_shard.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "lib/base/checked.hpp"
#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

namespace {

constexpr std::size_t kGrain = std::size_t{1} << 20U;  ///< elements that a worker makes at a time

/// Zeroed memory for `count` elements and what goes with them: `bytes`, an even number.
Buffer zeros(std::size_t bytes, MemoryKind memory, const Workers& workers) {
  if (workers.count() == 1) return Buffer::zeros(bytes / 2, Dtype::bf16, memory);
  Buffer made(bytes, memory);
  constexpr std::size_t kBytes = kGrain * sizeof(float);
  workers.parallel_for(ceil_div(bytes, kBytes), [&](std::size_t, std::size_t i) {
    const std::span<std::byte> rest = made.span().subspan(i * kBytes);
    std::memset(rest.data(), 0, std::min(kBytes, rest.size()));
  });
  return made;
}

}  // namespace

void OptimizerShard::require_whole_blocks(std::size_t elements) const {
  if (elements % optim::moment_alignment(moments()) == 0) return;
  throw std::invalid_argument(
      "moments in 8 bits need parts of whole blocks: set Options::shard_multiple");
}

template <class Body>
void OptimizerShard::for_each_tensor(const Unit& layout, std::size_t unit, const Extent& part,
                                     const Body& body) const {
  const std::size_t here = owned_.begin(partitions_[unit]) + units_[unit].extent.begin;
  const std::size_t begin = here + part.begin;
  const std::size_t end = begin + part.count;
  for (const Tensor& tensor : layout.tensors) {
    const std::size_t first = std::max(begin, tensor.offset);
    const std::size_t last = std::min(end, tensor.offset + tensor.count());
    if (first < last) body(tensor, first - tensor.offset, first - here, last - first);
  }
}

OptimizerShard::OptimizerShard(const OptimizerSetup& setup, std::span<const UnitArrays> arrays,
                               const ShardPlace& place)
    : partitions_(setup.partitions),
      owned_(setup.owned),
      seed_(setup.seed),
      options_(setup.options),
      rule_(optim::variant_of(setup.options)),
      device_(place.device),
      workers_(place.workers) {
  const std::vector<Unit>& units = setup.units;
  std::vector<optim::UpdatePiece> pieces;
  std::uint64_t number = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    State& state = units_.emplace_back();
    state.extent = arrays[unit].extent;
    const std::size_t n = state.extent.count;
    require_whole_blocks(state.extent.begin);
    require_whole_blocks(partitions_[unit].shard);
    const bool own =
        arrays[unit].ranges.empty() || arrays[unit].ranges.front().master.data == nullptr;
    if (own) {
      state.master = zeros(n * sizeof(float), place.memory, workers_);
      for (std::size_t i = 0; i < rule_.states; ++i) {
        state.states.push_back(zeros(kept().bytes_of_one(n), place.memory, workers_));
      }
      initialize(units, unit, {0, n}, master(unit), place.stream);
    }
    state.number = number;
    add_pieces(units[unit], unit, arrays[unit], pieces);
    number += units[unit].count;
  }
  pieces_ = Table<optim::UpdatePiece>(pieces, device_);
}

void OptimizerShard::initialize(const std::vector<Unit>& units, std::size_t unit,
                                const Extent& part, const View& master, StreamHandle stream) const {
  std::uint64_t tensors_before = 0;
  for (std::size_t u = 0; u < unit; ++u) tensors_before += units[u].tensors.size();
  const Unit& layout = units[unit];
  for_each_tensor(
      layout, unit, part,
      [&](const Tensor& tensor, std::size_t in_tensor, std::size_t here, std::size_t length) {
        const auto id =
            tensors_before + static_cast<std::uint64_t>(&tensor - layout.tensors.data());
        const View drawn = master.part(here - part.begin, length);
        const std::size_t grain = workers_.count() == 1 ? length : kGrain;
        workers_.parallel_for(ceil_div(length, grain), [&](std::size_t, std::size_t i) {
          const std::size_t first = i * grain;
          const std::size_t count = std::min(grain, length - first);
          device_.optim->initialize(seed_, id, in_tensor + first, count, tensor.init.constant,
                                    tensor.init.scale, drawn.part(first, count).as<float>(),
                                    stream);
        });
      });
}

KeptMoment OptimizerShard::moment(std::size_t unit, std::size_t index) const {
  const Buffer& memory = units_[unit].states[index];
  std::byte* const scales =
      memory.data() + units_[unit].extent.count * optim::moment_element_bytes(moments());
  return {memory.data(), reinterpret_cast<float*>(scales)};
}

void OptimizerShard::add_moment(const KeptMoment& moment, std::size_t index, std::size_t at,
                                optim::UpdatePiece& piece) const {
  piece.state[index] = moment.values + at * optim::moment_element_bytes(moments());
  if (moments() != optim::Moments::int8) return;
  piece.scale[index] = moment.scales + at / optim::kMomentBlock;
}

optim::UpdatePiece OptimizerShard::piece_of(const UpdateRange& range, std::size_t begin,
                                            std::size_t unit, const Tensor& tensor,
                                            std::size_t in_tensor, std::size_t at,
                                            std::size_t count) const {
  const bool narrow = range.compute_shard.count > 0;
  optim::UpdatePiece piece{
      .gradient = range.gradient.part(at - begin, count).as<float>(),
      .weight = nullptr,
      .state = {},
      .narrow = narrow ? range.compute_shard.part(at - begin, count).data : nullptr,
      .count = static_cast<std::uint32_t>(count),
      .decay = tensor.decay || options_.decayed == "all",
      .number = units_[unit].number + tensor.offset + in_tensor};
  const bool own = range.master.data == nullptr;
  const std::size_t from = own ? at : at - begin;
  piece.weight = (own ? master(unit) : range.master).part(from, count).as<float>();
  for (std::size_t i = 0; i < rule_.states; ++i) {
    add_moment(own ? moment(unit, i) : range.moments[i], i, from, piece);
  }
  return piece;
}

void OptimizerShard::add_pieces(const Unit& layout, std::size_t unit, const UnitArrays& arrays,
                                std::vector<optim::UpdatePiece>& pieces) {
  std::size_t begin = 0;
  for (const UpdateRange& range : arrays.ranges) {
    const std::size_t before = pieces.size();
    require_whole_blocks(begin);
    if (range.compute_shard.count > 0) compute_dtype_ = range.compute_shard.dtype;
    add_pieces(layout, unit, begin, range, pieces);
    units_[unit].ranges.push_back({before, pieces.size() - before});
    begin += range.gradient.count;
  }
}

void OptimizerShard::add_pieces(const Unit& layout, std::size_t unit, std::size_t begin,
                                const UpdateRange& range,
                                std::vector<optim::UpdatePiece>& pieces) const {
  const auto add = [&](const Tensor& tensor, std::size_t in_tensor, std::size_t here,
                       std::size_t length) {
    optim::for_each_piece(
        length, optim::kUpdatePiece, [&](std::size_t first, std::size_t elements) {
          pieces.push_back(
              piece_of(range, begin, unit, tensor, in_tensor + first, here + first, elements));
        });
  };
  for_each_tensor(layout, unit, {begin, range.gradient.count}, add);
}

void OptimizerShard::update_on_host(const Unit& layout, std::size_t unit, std::size_t begin,
                                    const UpdateRange& range, std::uint64_t t, float gradient_scale,
                                    double clip) const {
  std::vector<optim::UpdatePiece> pieces;
  add_pieces(layout, unit, begin, range, pieces);
  rule_.on(MemoryKind::host)(options_, step_of(t, gradient_scale, clip),
                             range.compute_shard.count > 0 ? compute_dtype_ : Dtype::fp32, pieces,
                             {});
}

std::vector<View> OptimizerShard::arrays(std::size_t unit) const {
  const State& state = units_[unit];
  std::vector<View> found;
  if (state.master.bytes() == 0) return found;
  found.push_back(master(unit));
  for (const Buffer& each : state.states)
    found.push_back(each.view(each.bytes() / size_of(Dtype::bf16), Dtype::bf16));
  return found;
}

optim::Step OptimizerShard::step_of(std::uint64_t t, float gradient_scale, double clip) const {
  return {.t = t,
          .scale = {.mean = gradient_scale, .clip = static_cast<float>(clip)},
          .draws = moment_draws(seed_, t)};
}

void OptimizerShard::run(const Pieces& pieces, std::uint64_t t, float gradient_scale, double clip,
                         StreamHandle stream) const {
  rule_.on(device_.memory)(options_, step_of(t, gradient_scale, clip), compute_dtype_,
                           pieces_.all().subspan(pieces.first, pieces.count), stream);
}

std::size_t OptimizerShard::add_image(const Unit& layout, std::size_t unit,
                                      const UnitArrays& arrays, const optim::ImageFormat& format,
                                      std::span<const ImageRange> ranges) {
  const UpdateRange& range = arrays.ranges.front();
  std::vector<optim::UpdatePiece> pieces;
  std::vector<optim::ImageTile> tiles;
  for (const ImageRange& image : ranges) {
    optim::for_each_piece(
        image.elements.count, optim::kImageTile, [&](std::size_t first, std::size_t count) {
          const std::size_t at = image.elements.begin + first;
          const std::size_t before = pieces.size();
          for_each_tensor(
              layout, unit, {at, count},
              [&](const Tensor& tensor, std::size_t in_tensor, std::size_t here,
                  std::size_t length) {
                pieces.push_back(piece_of(range, 0, unit, tensor, in_tensor, here, length));
              });
          const bool last = first + count == image.elements.count;
          tiles.push_back({.weight = master(unit).part(at, count).as<float>(),
                           .codes = image.codes + first * format.bits / 8,
                           .scales = image.scales + first / format.block * optim::kImageScaleBytes,
                           .first = static_cast<std::uint32_t>(before),
                           .pieces = static_cast<std::uint32_t>(pieces.size() - before),
                           .values = static_cast<std::uint32_t>(count),
                           .padding = static_cast<std::uint32_t>(last ? image.padding : 0)});
        });
  }
  images_.push_back({format, Table<optim::UpdatePiece>(pieces, device_),
                     Table<optim::ImageTile>(tiles, device_)});
  return images_.size() - 1;
}

void OptimizerShard::update_image(std::size_t image, std::uint64_t t, float gradient_scale,
                                  double clip, StreamHandle stream) const {
  const Image& made = images_[image];
  rule_.tiles_on(device_.memory)(options_, step_of(t, gradient_scale, clip), made.format,
                                 made.pieces.all(), made.tiles.all(), stream);
}

void OptimizerShard::update(std::size_t unit, std::uint64_t t, float gradient_scale, double clip,
                            StreamHandle stream) const {
  const std::vector<Pieces>& ranges = units_[unit].ranges;
  if (ranges.empty()) return;
  const Pieces& last = ranges.back();
  const std::size_t first = ranges.front().first;
  run({first, last.first + last.count - first}, t, gradient_scale, clip, stream);
}

void OptimizerShard::update_part(std::size_t unit, std::size_t range, std::size_t index,
                                 std::size_t parts, std::uint64_t t, float gradient_scale,
                                 double clip, StreamHandle stream) const {
  const Pieces& all = units_[unit].ranges[range];
  const std::size_t begin = all.count * index / parts;
  const std::size_t end = all.count * (index + 1) / parts;
  run({all.first + begin, end - begin}, t, gradient_scale, clip, stream);
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

std::size_t OptimizerShard::image_table_bytes() const {
  std::size_t total = 0;
  for (const Image& image : images_) total += image.pieces.bytes() + image.tiles.bytes();
  return total;
}

}  // namespace zeropp::zero
