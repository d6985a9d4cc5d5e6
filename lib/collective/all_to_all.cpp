#include "lib/collective/all_to_all.hpp"

#include <stdexcept>

#include "lib/base/error.hpp"
#include "lib/collective/draws.hpp"
#include "lib/collective/require.hpp"

namespace zeropp::collective {

namespace {

codec::Codec bind(const AllToAllPlan& plan, Backend backend) {
  try {
    return {plan.codec, plan.memory, backend};
  } catch (const std::invalid_argument& refusal) {
    throw Error(ExitCode::usage, refusal.what());
  }
}

}  // namespace

AllToAll::AllToAll(const Context& context, const AllToAllPlan& plan)
    : group_(context.group),
      plan_(plan),
      codec_(bind(plan, context.device.backend)),
      meter_(context.recorder, {.operation = "all_to_all",
                                .purpose = plan.purpose,
                                .phase = {},
                                .algorithm = "direct",
                                .codec = codec_.name(),
                                .group = context.group.name(),
                                .path = ""}) {
  if (plan.depth == 0) {
    throw Error(ExitCode::usage,
                "all-to-all: a pipeline depth of 0 moves nothing: give 1 (no pipeline) or more");
  }
  require_one_chunk("all-to-all", plan.codec, plan.depth);
  const auto size = static_cast<std::size_t>(group_.size());
  for (const Chunk& chunk : chunk_plan(plan.parts.count, plan.depth, codec_.block())) {
    const codec::Layout layout{.images = size,
                               .image_stride = plan.parts.stride,
                               .slices = 1,
                               .slice_stride = 0,
                               .length = chunk.length,
                               .padded = round_up(chunk.length, codec_.block())};
    const std::size_t bytes = codec_.wire_bytes(chunk.length);
    pieces_.push_back({chunk, layout, bytes, space_.reserve(size * bytes),
                       space_.reserve(size * bytes), nullptr});
  }
}

comm::Bytes AllToAll::volume() const {
  return bytes_to_others(group_.shape(), codec_.wire_bytes(plan_.parts.count));
}

void AllToAll::start(ConstView in, View out, const Run& run) {
  const auto size = static_cast<std::size_t>(group_.size());
  require_view("an all-to-all's input", in, span_of(plan_.parts, size), plan_.memory);
  require_view("an all-to-all's result", out, span_of(plan_.parts, size), out.dtype);
  require_workspace(run.workspace.size(), workspace_bytes());
  meter_.begin_run(run.phase, (size - 1) * plan_.parts.count * size_of(plan_.memory));
  const Meter::Span span(meter_);
  out_ = out;
  workspace_ = run.workspace;
  stream_ = run.stream;
  for (Piece& piece : pieces_) {
    std::byte* const encoded = workspace_.data() + piece.out;
    meter_.kernels([&] {
      codec_.encode(
          in.part(piece.chunk.first, in.count - piece.chunk.first), piece.layout,
          {encoded, piece.image_bytes}, stream_,
          draw_of(run.key, 0, static_cast<std::size_t>(group_.rank()), 0, piece.chunk.first));
    });
    piece.work = meter_.exchange_equal(group_, encoded, workspace_.data() + piece.in,
                                       piece.image_bytes, stream_);
  }
}

void AllToAll::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  stream_ = stream;
  for (Piece& piece : pieces_) {
    meter_.wait(piece.work, stream_);
    meter_.kernels([&] {
      codec_.decode({workspace_.data() + piece.in, piece.image_bytes}, piece.layout,
                    out_.part(piece.chunk.first, out_.count - piece.chunk.first), stream_);
    });
  }
}

}  // namespace zeropp::collective
