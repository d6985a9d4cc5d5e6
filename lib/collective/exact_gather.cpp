#include "lib/collective/exact_gather.hpp"

#include <cstddef>

#include "lib/base/checked.hpp"
#include "lib/collective/require.hpp"

namespace zeropp::collective {

namespace {

/// Images begin where a buffer may.
constexpr std::size_t kAlignment = 256;

/// Where the sums of a run's own counts lie, after the counts.
std::size_t sums_offset(std::size_t count) {
  return round_up(codec::exact_count_bytes(count), alignof(std::max_align_t));
}

/// Bytes before the images.
std::size_t head_bytes(std::size_t count) {
  return round_up(sums_offset(count) + sizeof(codec::Escapes), kAlignment);
}

}  // namespace

Description describe_exact_gather(std::string_view algorithm, const Ranks& ranks,
                                  const ExactGatherPlan& plan, const codec::ExactShape& shape) {
  const std::size_t bytes = codec::exact_bytes(plan.count, shape);
  return {find_all_gather(algorithm).traffic(ranks, bytes, bytes > 0 ? 1 : 0),
          head_bytes(plan.count) +
              ranks.group.size * codec::exact_bytes(plan.count, codec::ExactShape{}),
          {.operation = "all_gather",
           .purpose = plan.purpose,
           .phase = {},
           .algorithm = std::string(algorithm),
           .codec = "exact",
           .group = ranks.group.name,
           .path = {}}};
}

ExactGather::ExactGather(std::string_view algorithm, const Context& context,
                         const ExactGatherPlan& plan)
    : group_(context.group),
      levels_(all_gather_traits(algorithm).hierarchical ? &context.groups : nullptr),
      ops_(codec::exact_ops(context.device.backend)),
      plan_(plan),
      meter_(context.recorder, describe_exact_gather(algorithm, ranks_of(context), plan, {}).row) {}

std::size_t ExactGather::rank_of(std::size_t slot) const {
  const auto nodes = static_cast<std::size_t>(levels_->rail->size());
  const auto locals = static_cast<std::size_t>(levels_->node->size());
  return slot % nodes * locals + slot / nodes;
}

void ExactGather::count(ConstView part, ConstView own, std::span<std::byte> workspace,
                        codec::Escapes* escapes, StreamHandle stream) const {
  require_workspace(workspace.size(), codec::exact_count_bytes(plan_.count));
  ops_.count(part, own, workspace.data(), escapes, stream);
}

void ExactGather::start(ConstView part, View copies, const codec::ExactShape& shape,
                        const Run& run) {
  const auto size = static_cast<std::size_t>(group_.size());
  const auto rank = static_cast<std::size_t>(group_.rank());
  require_view("the copies of an exact all-gather", copies, size * plan_.count, plan_.dtype);
  image_bytes_ = codec::exact_bytes(plan_.count, shape);
  require_workspace(run.workspace.size(), head_bytes(plan_.count) + size * image_bytes_);
  meter_.begin_run(run.phase, (size - 1) * plan_.count * size_of(plan_.dtype));
  const Meter::Span span(meter_);
  shape_ = shape;
  copies_ = copies;
  if (image_bytes_ == 0) return;
  std::byte* const counts = run.workspace.data();
  images_ = counts + head_bytes(plan_.count);
  // The images that the own rail brings begin at `rail`; without levels the group
  // brings them all.
  std::byte* rail = images_;
  std::size_t place = rank;  // of the own image among them
  if (levels_ != nullptr) {
    const auto local = static_cast<std::size_t>(levels_->node->rank());
    rail += local * static_cast<std::size_t>(levels_->rail->size()) * image_bytes_;
    place = static_cast<std::size_t>(levels_->rail->rank());
  }
  std::byte* const image = rail + place * image_bytes_;
  meter_.kernels([&] {
    const View own = copies.part(rank * plan_.count, plan_.count);
    // The counts that ranks agreed by were not kept: they are made again, of the same values.
    auto* const sums = reinterpret_cast<codec::Escapes*>(counts + sums_offset(plan_.count));
    ops_.count(part, own, counts, sums, run.stream);
    ops_.encode(part, own, counts, shape, image, run.stream);
  });
  work_ = meter_.all_gather_in_place(levels_ == nullptr ? group_ : *levels_->rail, rail,
                                     image_bytes_, image_bytes_, run.stream);
}

void ExactGather::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  if (work_ == nullptr) return;
  meter_.wait(work_, stream);
  const auto size = static_cast<std::size_t>(group_.size());
  if (levels_ == nullptr) {
    meter_.kernels([&] {
      ops_.decode({images_, image_bytes_}, size, plan_.count, shape_, copies_, stream);
    });
    return;
  }
  const std::size_t of_rail = static_cast<std::size_t>(levels_->rail->size()) * image_bytes_;
  work_ = meter_.all_gather_in_place(*levels_->node, images_, of_rail, of_rail, stream);
  meter_.wait(work_, stream);
  meter_.kernels([&] {
    for (std::size_t slot = 0; slot < size; ++slot) {
      ops_.decode({images_ + slot * image_bytes_, image_bytes_}, 1, plan_.count, shape_,
                  copies_.part(rank_of(slot) * plan_.count, plan_.count), stream);
    }
  });
}

}  // namespace zeropp::collective
