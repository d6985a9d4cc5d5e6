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

Description describe_exact_gather(const Ranks& ranks, const ExactGatherPlan& plan,
                                  const codec::ExactShape& shape) {
  const std::size_t bytes = codec::exact_bytes(plan.count, shape);
  return {{bytes_to_others(ranks.group, bytes), messages_to_others(ranks.group, bytes > 0 ? 1 : 0)},
          head_bytes(plan.count) +
              ranks.group.size * codec::exact_bytes(plan.count, codec::ExactShape{}),
          {.operation = "all_gather",
           .purpose = plan.purpose,
           .phase = {},
           .algorithm = "direct",
           .codec = "exact",
           .group = ranks.group.name,
           .path = {}}};
}

ExactGather::ExactGather(const Context& context, const ExactGatherPlan& plan)
    : group_(context.group),
      ops_(codec::exact_ops(context.device.backend)),
      plan_(plan),
      meter_(context.recorder, describe_exact_gather(ranks_of(context), plan, {}).row) {}

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
  const std::size_t bytes = codec::exact_bytes(plan_.count, shape);
  require_workspace(run.workspace.size(), head_bytes(plan_.count) + size * bytes);
  meter_.begin_run(run.phase, (size - 1) * plan_.count * size_of(plan_.dtype));
  const Meter::Span span(meter_);
  shape_ = shape;
  copies_ = copies;
  if (bytes == 0) return;
  std::byte* const counts = run.workspace.data();
  images_ = counts + head_bytes(plan_.count);
  std::byte* const image = images_ + rank * bytes;
  meter_.kernels([&] {
    const View own = copies.part(rank * plan_.count, plan_.count);
    // The counts that ranks agreed by were not kept: they are made again, of the same values.
    auto* const sums = reinterpret_cast<codec::Escapes*>(counts + sums_offset(plan_.count));
    ops_.count(part, own, counts, sums, run.stream);
    ops_.encode(part, own, counts, shape, image, run.stream);
  });
  work_ = meter_.all_gather_in_place(group_, images_, bytes, bytes, run.stream);
}

void ExactGather::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  if (work_ == nullptr) return;
  meter_.wait(work_, stream);
  meter_.kernels([&] {
    const std::size_t bytes = codec::exact_bytes(plan_.count, shape_);
    ops_.decode({images_, bytes}, static_cast<std::size_t>(group_.size()), plan_.count, shape_,
                copies_, stream);
  });
}

}  // namespace zeropp::collective
