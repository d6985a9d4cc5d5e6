#include "lib/zero/engine/checkpoint_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace zeropp::zero {

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

std::vector<KeptSlice> CheckpointState::kept_slices() const {
  std::vector<KeptSlice> slices = copies_.slices();
  std::ranges::move(arrays_.slices(), std::back_inserter(slices));
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
  context_.executor.join();
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

checkpoint::Slice CheckpointState::widths_slice() const {
  return {"adaptive_bits/" + std::string(enum_name(context_.options.adaptive_bits.values)),
          sizeof(std::uint64_t), context_.units().size(), 0, context_.units().size()};
}

bool CheckpointState::restore_widths(const ReadSlice& read, const HasSlice& has) {
  if (adaptive_ == nullptr) return true;
  if (!has(widths_slice())) return false;
  std::vector<std::uint64_t> bits(context_.units().size());
  read(widths_slice(), std::as_writable_bytes(std::span(bits)));
  return adaptive_->restore(bits);
}

bool CheckpointState::restore(const StepCounts& steps, const ReadSlice& read, const HasSlice& has) {
  const Stream& compute = context_.compute();
  context_.executor.join();
  bool as_kept = true;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    as_kept = arrays_.restore(u, read, has) && as_kept;
    optimizer_.make_weights(u);
  }
  optimizer_.wait_for_files();
  context_.collectives.gradients.errors().forget(compute.handle());
  compute.synchronize();
  // Progress is set as if the steps had been taken here: draws depend on the version of the
  // weights.
  context_.progress = {.steps = steps, .version = steps.taken + 1};
  return as_kept;
}

void CheckpointState::set_weights(const ReadSlice& read) {
  context_.executor.join();
  const Stream& compute = context_.compute();
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    arrays_.read_master(u, read);
    optimizer_.make_weights(u);
  }
  optimizer_.wait_for_files();
  compute.synchronize();
  context_.progress.resident = context_.progress.secondary = 0;
}

bool CheckpointState::restore_errors(const ReadSlice& read, const HasSlice& has) {
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
  return context_.collectives.gradients.errors().state();
}

}  // namespace zeropp::zero
