#include "lib/zero/engine/checkpoint_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace zeropp::zero {

namespace {

/// Elements of a unit's flat buffer that canonical shard `number` has.
Extent part_of(const UnitPartition& unit, std::size_t number) {
  const std::size_t begin = std::min(number * unit.canonical, unit.flat);
  return {begin, std::min(unit.canonical, unit.flat - begin)};
}

/// Elements that lie in both extents; none, at the place where they would begin, where the two do
/// not meet.
Extent common(const Extent& one, const Extent& other) {
  const std::size_t end = std::min(one.begin + one.count, other.begin + other.count);
  const std::size_t begin = std::min(std::max(one.begin, other.begin), end);
  return {begin, end - begin};
}

checkpoint::Slice array_slice(std::string array, const UnitPartition& unit, const Extent& part) {
  return {std::move(array), sizeof(float), unit.flat, part.begin, part.count};
}

}  // namespace

std::string CheckpointState::array_name(std::size_t unit, std::size_t index) const {
  const std::string array = index == 0 ? "master" : fmt::format("state{}", index - 1);
  return context_.model.units()[unit].name + "/" + array;
}

CheckpointState::KeptArray CheckpointState::in_memory(std::string name, std::size_t begin,
                                                      const View& values) const {
  const auto bytes_of = [values](const Extent& part) {
    return static_cast<std::byte*>(values.part(part.begin, part.count).data);
  };
  return {std::move(name), begin, values.count,
          [this, bytes_of](const Extent& part, std::span<std::byte> to) {
            context_.compute().copy(to.data(), bytes_of(part), to.size());
          },
          [this, bytes_of](const Extent& part, std::span<const std::byte> from) {
            context_.compute().copy(bytes_of(part), from.data(), from.size());
          }};
}

CheckpointState::KeptArray CheckpointState::in_file(std::string name, std::size_t begin,
                                                    std::size_t unit, std::size_t index) const {
  const OffloadedOptimizer* const offloaded = optimizer_.offloaded();
  OptimizerRecords* const records = offloaded->records();
  return {
      std::move(name), begin, offloaded->shard().extent(unit).count,
      [=](const Extent& part, std::span<std::byte> to) { records->read(unit, index, part, to); },
      [=](const Extent& part, std::span<const std::byte> from) {
        records->write(unit, index, part, from);
      }};
}

std::vector<CheckpointState::KeptArray> CheckpointState::kept_arrays(std::size_t unit,
                                                                     std::size_t index) const {
  const std::size_t own =
      context_.preset.shard_optimizer ? context_.shard_rank() * context_.units()[unit].shard : 0;
  const std::string name = array_name(unit, index);
  std::vector<KeptArray> arrays;
  const auto add = [&](const OptimizerShard& part, bool on_file) {
    const Extent& extent = part.extent(unit);
    if (extent.count == 0) return;
    const std::size_t begin = own + extent.begin;
    if (on_file) {
      arrays.push_back(in_file(name, begin, unit, index));
    } else {
      const View values = index == 0 ? part.master(unit) : part.state(unit, index - 1);
      arrays.push_back(in_memory(name, begin, values));
    }
  };
  const OffloadedOptimizer* const offloaded = optimizer_.offloaded();
  if (offloaded != nullptr) add(offloaded->shard(), offloaded->records() != nullptr);
  add(optimizer_.on_device(), false);
  return arrays;
}

/// A rank's errors are its own: what it lost of its own gradients, in the order in which the
/// algorithm sends them on these nodes. Another number of ranks may need as many bytes: the name
/// tells them apart.
checkpoint::Slice CheckpointState::errors_slice(const NamedState& errors) const {
  const std::size_t bytes = errors.bytes.size();
  const std::string groups =
      context_.groups.shards
          ? fmt::format(" in groups of {}", context_.groups.shards->world->size())
          : "";
  return {
      fmt::format("{}/{}, {} x {} ranks{}/{}", errors.name,
                  context_.options.reduce_scatter_algorithm, context_.groups.topology.node_count,
                  context_.groups.topology.ranks_per_node, groups, context_.groups.world->rank()),
      1, bytes, 0, bytes};
}

std::vector<CheckpointState::KeptSlice> CheckpointState::kept_slices() const {
  std::vector<KeptSlice> slices;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    const Extent shard = part_of(context_.units()[u], context_.canonical());
    for (std::size_t index = 0; index <= optimizer_.on_device().states(); ++index) {
      for (const KeptArray& array : kept_arrays(u, index)) {
        const Extent part = common(shard, {array.begin, array.count});
        slices.push_back({array_slice(array.name, context_.units()[u], part),
                          [=](std::span<std::byte> to) { array.read(array.at(part), to); }});
      }
    }
  }
  for (const NamedState& errors : error_feedback()) {
    const std::byte* const from = errors.bytes.data();
    slices.push_back({errors_slice(errors), [this, from](std::span<std::byte> to) {
                        context_.compute().copy(to.data(), from, to.size());
                      }});
  }
  return slices;
}

bool CheckpointState::keeps_widths() const {
  return adaptive_ != nullptr && context_.groups.world->rank() == 0;
}

void CheckpointState::reserve(Buffer& memory) const {
  std::size_t bytes = keeps_widths() ? widths_slice().bytes() : 0;
  for (const KeptSlice& each : kept_slices()) bytes += each.slice.bytes();
  if (memory.bytes() < bytes) memory = Buffer(bytes, context_.device.staging());
}

std::vector<checkpoint::HostSlice> CheckpointState::slices(Buffer& memory) const {
  reserve(memory);
  const Stream& compute = context_.compute();
  context_.executor.join({StreamId::update});
  std::vector<checkpoint::HostSlice> kept;
  std::byte* to = memory.data();
  for (const KeptSlice& each : kept_slices()) {
    const std::size_t size = each.slice.bytes();
    if (size > 0) each.read({to, size});
    kept.push_back({each.slice, {to, size}});
    to += size;
  }
  if (keeps_widths()) {
    const std::vector<std::uint64_t> bits = adaptive_->bits();
    const auto bytes = std::as_bytes(std::span(bits));
    std::ranges::copy(bytes, to);
    kept.push_back({widths_slice(), {to, bytes.size()}});
  }
  compute.synchronize();
  return kept;
}

void CheckpointState::fill(std::size_t unit, const KeptArray& array, const ReadSlice& read) {
  const Extent part = common({0, context_.units()[unit].flat}, {array.begin, array.count});
  std::vector<float> memory(part.count);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  read(array_slice(array.name, context_.units()[unit], part), bytes);
  context_.compute().synchronize();  // weights of other units leave from the same buffers
  array.write(array.at(part), bytes);
  context_.compute().synchronize();  // `memory` ends here
}

checkpoint::Slice CheckpointState::widths_slice() const {
  return {"adaptive_bits/" + std::string(enum_name(context_.options.adaptive_bits.values)),
          sizeof(std::uint64_t), context_.units().size(), 0, context_.units().size()};
}

bool CheckpointState::restore_widths(const HasSlice& has, const ReadSlice& read) {
  if (adaptive_ == nullptr) return true;
  if (!has(widths_slice())) return false;
  std::vector<std::uint64_t> bits(context_.units().size());
  read(widths_slice(), std::as_writable_bytes(std::span(bits)));
  return adaptive_->restore(bits);
}

void CheckpointState::restore(const StepCounts& steps, const ReadSlice& read) {
  const Stream& compute = context_.compute();
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    for (std::size_t index = 0; index <= optimizer_.on_device().states(); ++index) {
      for (const KeptArray& array : kept_arrays(u, index)) fill(u, array, read);
    }
    optimizer_.make_weights(u);
  }
  optimizer_.wait_for_files();
  context_.gradient_reduce.errors().forget(compute.handle());
  compute.synchronize();
  // Progress is set as if the steps had been taken here: draws depend on the version of the
  // weights.
  context_.progress = {.steps = steps, .version = steps.taken + 1};
}

void CheckpointState::restore_weights(const ReadSlice& read) {
  const Stream& compute = context_.compute();
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    for (const KeptArray& array : kept_arrays(u, 0)) fill(u, array, read);
    optimizer_.make_weights(u);
  }
  optimizer_.wait_for_files();
  compute.synchronize();
}

bool CheckpointState::restore_errors(const HasSlice& has, const ReadSlice& read) {
  const std::vector<NamedState> kept = error_feedback();
  for (const NamedState& errors : kept) {
    if (!has(errors_slice(errors))) return false;
  }
  const Stream& compute = context_.compute();
  for (const NamedState& errors : kept) {
    std::vector<std::byte> bytes(errors.bytes.size());
    read(errors_slice(errors), bytes);
    compute.copy(errors.bytes.data(), bytes.data(), bytes.size());
    compute.synchronize();
  }
  return true;
}

std::vector<NamedState> CheckpointState::error_feedback() const {
  context_.compute().synchronize();  // a reset or another scale may be under way
  return context_.gradient_reduce.errors().state();
}

std::vector<std::byte> CheckpointState::fetch_master(std::size_t unit) const {
  const std::size_t shard = context_.units()[unit].canonical;
  const std::size_t begin = context_.canonical() * shard;
  const Stream& compute = context_.compute();
  context_.executor.join({StreamId::update});
  compute.synchronize();  // the copy to pageable memory would wait unwatched
  std::vector<std::byte> bytes;
  for (const KeptArray& array : kept_arrays(unit, 0)) {
    const std::size_t first = std::max(begin, array.begin);
    const std::size_t last = std::min(begin + shard, array.begin + array.count);
    if (first >= last) continue;
    const std::size_t at = bytes.size();
    bytes.resize(at + (last - first) * sizeof(float));
    array.read(array.at({first, last - first}), std::span(bytes).subspan(at));
    compute.synchronize();
  }
  return bytes;
}

}  // namespace zeropp::zero
