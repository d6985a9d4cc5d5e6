// What a checkpoint keeps of an engine, and how an engine goes on from it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

/// Of a unit's flat buffer, the elements that canonical shard `number` has.
Extent part_of(const UnitPartition& unit, std::size_t number) {
  const std::size_t begin = std::min(number * unit.canonical, unit.flat);
  return {begin, std::min(unit.canonical, unit.flat - begin)};
}

/// What lies in both; elements of neither where that is nothing.
Extent common(const Extent& one, const Extent& other) {
  const std::size_t end = std::min(one.begin + one.count, other.begin + other.count);
  const std::size_t begin = std::min(std::max(one.begin, other.begin), end);
  return {begin, end - begin};
}

checkpoint::Slice slice_of(std::string array, const UnitPartition& unit, const Extent& part) {
  return {std::move(array), sizeof(float), unit.flat, part.begin, part.count};
}

}  // namespace

std::string Engine::array_name(std::size_t unit, std::size_t index) const {
  const std::string array = index == 0 ? "master" : fmt::format("state{}", index - 1);
  return model_.units()[unit].name + "/" + array;
}

Engine::KeptArray Engine::in_memory(std::string name, std::size_t begin, const View& values) const {
  const auto bytes_of = [values](const Extent& part) {
    return static_cast<std::byte*>(values.part(part.begin, part.count).data);
  };
  return {std::move(name), begin, values.count,
          [this, bytes_of](const Extent& part, std::span<std::byte> to) {
            stream(StreamId::compute).copy(to.data(), bytes_of(part), to.size());
          },
          [this, bytes_of](const Extent& part, std::span<const std::byte> from) {
            stream(StreamId::compute).copy(bytes_of(part), from.data(), from.size());
          }};
}

Engine::KeptArray Engine::in_file(std::string name, std::size_t begin, std::size_t unit,
                                  std::size_t index) const {
  OptimizerRecords* const records = offloaded_->records();
  return {
      std::move(name), begin, offloaded_->shard().extent(unit).count,
      [=](const Extent& part, std::span<std::byte> to) { records->read(unit, index, part, to); },
      [=](const Extent& part, std::span<const std::byte> from) {
        records->write(unit, index, part, from);
      }};
}

std::vector<Engine::KeptArray> Engine::kept_arrays(std::size_t unit, std::size_t index) const {
  const std::size_t own =
      preset_.shard_optimizer
          ? static_cast<std::size_t>(groups_.sharding().world->rank()) * plans_.units[unit].shard
          : 0;
  const std::string name = array_name(unit, index);
  std::vector<KeptArray> arrays;
  const auto add = [&](const OptimizerShard& part, bool filed) {
    const Extent& extent = part.extent(unit);
    if (extent.count == 0) return;
    const std::size_t begin = own + extent.begin;
    if (filed) {
      arrays.push_back(in_file(name, begin, unit, index));
    } else {
      const View values = index == 0 ? part.master(unit) : part.state(unit, index - 1);
      arrays.push_back(in_memory(name, begin, values));
    }
  };
  if (offloaded_) add(offloaded_->shard(), offloaded_->records() != nullptr);
  add(optimizer_, false);
  return arrays;
}

/// A rank's errors are its own: what it lost of its own gradients, in the order in which the
/// algorithm sends them on these nodes. Another number of ranks may need as many bytes: the name
/// tells them apart.
checkpoint::Slice Engine::slice_of(const NamedState& errors) const {
  const std::size_t bytes = errors.bytes.size();
  const std::string groups =
      groups_.shards ? fmt::format(" in groups of {}", groups_.shards->world->size()) : "";
  return {fmt::format("{}/{}, {} x {} ranks{}/{}", errors.name, options_.reduce_scatter_algorithm,
                      groups_.topology.node_count, groups_.topology.ranks_per_node, groups,
                      groups_.world->rank()),
          1, bytes, 0, bytes};
}

std::vector<Engine::KeptSlice> Engine::kept_slices() const {
  std::vector<KeptSlice> slices;
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    const Extent shard = part_of(plans_.units[u], canonical());
    for (std::size_t index = 0; index <= optimizer_.states(); ++index) {
      for (const KeptArray& array : kept_arrays(u, index)) {
        const Extent part = common(shard, {array.begin, array.count});
        slices.push_back({zero::slice_of(array.name, plans_.units[u], part),
                          [=](std::span<std::byte> to) { array.read(array.at(part), to); }});
      }
    }
  }
  for (const NamedState& errors : error_feedback()) {
    const std::byte* const from = errors.bytes.data();
    slices.push_back({slice_of(errors), [this, from](std::span<std::byte> to) {
                        stream(StreamId::compute).copy(to.data(), from, to.size());
                      }});
  }
  return slices;
}

bool Engine::keeps_widths() const { return adaptive_ && groups_.world->rank() == 0; }

void Engine::reserve_state(Buffer& memory) const {
  std::size_t bytes = keeps_widths() ? widths_slice().bytes() : 0;
  for (const KeptSlice& each : kept_slices()) bytes += each.slice.bytes();
  if (memory.bytes() < bytes) memory = Buffer(bytes, device_.staging());
}

std::vector<checkpoint::HostSlice> Engine::state(Buffer& memory) const {
  reserve_state(memory);
  const Stream& compute = stream(StreamId::compute);
  join({StreamId::update});
  std::vector<checkpoint::HostSlice> slices;
  std::byte* to = memory.data();
  for (const KeptSlice& each : kept_slices()) {
    const std::size_t size = each.slice.bytes();
    if (size > 0) each.read({to, size});
    slices.push_back({each.slice, {to, size}});
    to += size;
  }
  if (keeps_widths()) {
    const std::vector<std::uint64_t> bits = adaptive_->bits();
    const auto bytes = std::as_bytes(std::span(bits));
    std::ranges::copy(bytes, to);
    slices.push_back({widths_slice(), {to, bytes.size()}});
  }
  compute.synchronize();
  return slices;
}

void Engine::fill(std::size_t unit, const KeptArray& array, const ReadSlice& read) {
  const Extent part = common({0, plans_.units[unit].flat}, {array.begin, array.count});
  std::vector<float> memory(part.count);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  read(zero::slice_of(array.name, plans_.units[unit], part), bytes);
  stream(StreamId::compute).synchronize();  // weights of other units leave from the same buffers
  array.write(array.at(part), bytes);
  stream(StreamId::compute).synchronize();  // `memory` ends here
}

checkpoint::Slice Engine::widths_slice() const {
  return {"adaptive_bits/" + options_.adaptive_bits.values, sizeof(std::uint64_t),
          plans_.units.size(), 0, plans_.units.size()};
}

bool Engine::restore_widths(const std::function<bool(const checkpoint::Slice&)>& has,
                            const ReadSlice& read) {
  if (!adaptive_) return true;
  if (!has(widths_slice())) return false;
  std::vector<std::uint64_t> bits(plans_.units.size());
  read(widths_slice(), std::as_writable_bytes(std::span(bits)));
  return adaptive_->restore(bits);
}

void Engine::restore(const StepCounts& steps, const ReadSlice& read) {
  const Stream& compute = stream(StreamId::compute);
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    for (std::size_t index = 0; index <= optimizer_.states(); ++index) {
      for (const KeptArray& array : kept_arrays(u, index)) fill(u, array, read);
    }
    make_weights(u);
  }
  settle_files();
  plans_.gradients.errors().forget(compute.handle());
  compute.synchronize();
  steps_taken_ = steps.taken;
  steps_begun_ = steps.begun;
  version_ = steps.taken + 1;  // as if the steps had been taken here: draws depend on it
  secondary_version_ = 0;
  gathered_initial_ = false;
}

void Engine::restore_weights(const ReadSlice& read) {
  const Stream& compute = stream(StreamId::compute);
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    for (const KeptArray& array : kept_arrays(u, 0)) fill(u, array, read);
    make_weights(u);
  }
  settle_files();
  compute.synchronize();
}

bool Engine::restore_errors(const std::function<bool(const checkpoint::Slice&)>& has,
                            const ReadSlice& read) {
  const std::vector<NamedState> kept = error_feedback();
  for (const NamedState& errors : kept) {
    if (!has(slice_of(errors))) return false;
  }
  const Stream& compute = stream(StreamId::compute);
  for (const NamedState& errors : kept) {
    std::vector<std::byte> bytes(errors.bytes.size());
    read(slice_of(errors), bytes);
    compute.copy(errors.bytes.data(), bytes.data(), bytes.size());
    compute.synchronize();
  }
  return true;
}

}  // namespace zeropp::zero
