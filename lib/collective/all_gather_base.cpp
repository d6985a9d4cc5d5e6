#include "lib/collective/all_gather_base.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lib/collective/description.hpp"
#include "lib/collective/draws.hpp"
#include "lib/collective/require.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::collective {

namespace {

/// The hop of error feedback that an all-gather's encoding is.
constexpr int kGatherFeedbackHop = 2;

/// Bytes that are counted include the padding of images, which parts in their places have not: they
/// go there where they need none. Modelled bytes are the vendor's all the same.
bool goes_in_place(const AllGatherPlan& plan, const Traits& traits, std::size_t part_bytes) {
  const bool unpadded = part_bytes == plan.parts.count * size_of(plan.memory);
  return traits.in_place && plan.codec == codec::CodecSpec{} && plan.result == plan.memory &&
         plan.parts.stride == plan.parts.count && !plan.feedback && !plan.adds &&
         (traits.modelled || unpadded);
}

}  // namespace

GatherLayout::GatherLayout(const codec::Codec& codec, const AllGatherPlan& plan,
                           const Traits& traits, std::size_t ranks)
    : part_bytes(codec.wire_bytes(plan.parts.count)),
      in_place(goes_in_place(plan, traits, part_bytes)) {
  const std::size_t count = plan.parts.count;
  WorkspacePlan space;
  feedback = reserve_hop(space, plan.feedback, kGatherFeedbackHop, 1, count,
                         padded_layout(count, codec.block()));
  std::size_t packed = 0;
  for (const Chunk& chunk : image_chunks(traits, plan)) {
    const std::size_t bytes = codec.wire_bytes(chunk.length);
    pieces.push_back({chunk, bytes, space.reserve(in_place ? 0 : ranks * bytes), packed});
    packed += bytes;
  }
  workspace = space.bytes();
}

Description describe(const AllGatherAlgorithm& algorithm, const Ranks& ranks,
                     const AllGatherPlan& plan) {
  const codec::Codec codec(plan.codec, plan.memory);
  const GatherLayout layout(codec, plan, algorithm.traits, ranks.group.size);
  return {algorithm.traffic(ranks, layout.part_bytes, layout.pieces.size()),
          layout.workspace,
          {.operation = "all_gather",
           .purpose = plan.purpose,
           .phase = {},
           .algorithm = std::string(algorithm.name),
           .codec = codec.name(),
           .group = ranks.group.name,
           .path = feedback_path("", plan.feedback, {kGatherFeedbackHop}),
           .modelled = algorithm.traits.modelled}};
}

AllGatherBase::AllGatherBase(const Context& context, const AllGatherPlan& plan,
                             const AllGatherAlgorithm& algorithm)
    : group_(context.group),
      device_(context.device),
      plan_(plan),
      codec_(plan.codec, plan.memory, context.device.backend),
      description_(describe(algorithm, ranks_of(context), plan)),
      meter_(context.recorder, description_.row),
      layout_(codec_, plan, algorithm.traits, size()),
      encoder_(codec_.rounding()),
      feedback_(HopFeedback::planned(plan.feedback, kGatherFeedbackHop, 1, plan.parts.count, codec_,
                                     layout_.feedback)) {
  for (const GatherLayout::Piece& piece : layout_.pieces) pieces_.push_back({piece, nullptr});
}

void AllGatherBase::start(ConstView part, View full, const Run& run) {
  part_ = checked_part(part);
  image_ = {};
  begin_run(full, run);
}

void AllGatherBase::start_from_image(std::span<const std::byte> image, View full, const Run& run) {
  require_image(image.size());
  part_ = {};
  image_ = image;
  begin_run(full, run);
}

void AllGatherBase::start_from_workspace(View full, const Run& run) {
  require_images();
  part_ = {};
  image_ = {};
  begin_run(full, run);
}

void AllGatherBase::begin_run(View full, const Run& run) {
  require_view("an all-gather's result", full, span_of(plan_.parts, size()), plan_.result);
  require_workspace(run.workspace.size(), workspace_bytes());
  meter_.begin_run(run.phase, (size() - 1) * plan_.parts.count * size_of(plan_.memory));
  const Meter::Span span(meter_);
  full_ = full;
  workspace_ = run.workspace;
  stream_ = run.stream;
  key_ = run.key;
  if (feedback_) feedback_->begin(workspace_.data(), stream_);
  begin();
  if (feedback_) feedback_->end(stream_);
}

void AllGatherBase::finish(StreamHandle stream) {
  const Meter::Span span(meter_);
  stream_ = stream;
  complete();
}

View AllGatherBase::put_own_part() {
  const View place = full_.part(rank() * plan_.parts.stride, plan_.parts.count);
  if (part_.count == 0 || place.data == part_.data) return place;
  if (part_.dtype != place.dtype) {
    device_.memory_ops->convert(part_, place, stream_);
  } else {
    Stream::borrow(*device_.runtime, stream_)
        .copy(static_cast<std::byte*>(place.data), static_cast<const std::byte*>(part_.data),
              part_.bytes());
  }
  return place;
}

std::vector<ImageChunk> AllGatherBase::image_chunks() const {
  std::vector<ImageChunk> chunks;
  if (!has_images()) return chunks;
  for (const GatherLayout::Piece& piece : layout_.pieces) {
    chunks.push_back({piece.chunk.first, piece.chunk.length, piece.packed, piece.image_bytes});
  }
  return chunks;
}

std::vector<ImageChunk> AllGatherBase::sent_chunks() const {
  std::vector<ImageChunk> chunks = image_chunks();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const GatherLayout::Piece& piece = layout_.pieces[i];
    chunks[i].offset = piece.offset + own_slot() * piece.image_bytes;
  }
  return chunks;
}

void AllGatherBase::require_images() const {
  if (has_images()) return;
  throw std::invalid_argument("collective: this all-gather has no images of parts to start from");
}

void AllGatherBase::require_image(std::size_t bytes) const {
  require_images();
  if (bytes >= part_bytes()) return;
  throw std::invalid_argument(
      fmt::format("collective: a part's image has {} bytes, {} were planned", bytes, part_bytes()));
}

ConstView AllGatherBase::checked_part(const ConstView& part) const {
  const bool rounds = part.dtype == Dtype::fp32 && !plan_.feedback;
  require_view("an all-gather's part", part, plan_.parts.count,
               rounds ? Dtype::fp32 : plan_.memory);
  return part.part(0, plan_.parts.count);
}

void AllGatherBase::encode_image(ConstView part, std::span<std::byte> image, StreamHandle stream,
                                 std::uint64_t key) {
  require_image(image.size());
  const ConstView own = checked_part(part);
  for (const GatherLayout::Piece& piece : layout_.pieces)
    encode_chunk(own, piece, image.data() + piece.packed, stream, key);
}

void AllGatherBase::encode_chunk(const ConstView& part, const GatherLayout::Piece& piece,
                                 std::byte* image, StreamHandle stream, std::uint64_t key) {
  const ConstView values = part.part(piece.chunk.first, piece.chunk.length);
  const codec::Layout layout = padded_layout(piece.chunk.length, codec_.block());
  const codec::WireImages out{image, piece.image_bytes};
  const codec::Draw draw = draw_of(key, kGatherHop, rank(), rank(), piece.chunk.first);
  meter_.kernels([&] {
    if (feedback_) {
      feedback_->encode(values, layout, std::max<std::size_t>(1, plan_.parts.count),
                        piece.chunk.first, out, stream, draw);
    } else {
      encoder_.encode(values, layout, out, stream, draw);
    }
  });
}

void AllGatherBase::encode(const Piece& piece) {
  std::byte* const image = slot(piece, own_slot());
  if (part_.data != nullptr) {
    encode_chunk(part_, piece, image, stream_, key_);
  } else if (!image_.empty()) {
    Stream::borrow(*device_.runtime, stream_)
        .copy(image, image_.data() + piece.packed, piece.image_bytes);
  }
}

void AllGatherBase::decode(const Piece& piece, std::size_t index, std::size_t images,
                           std::size_t first_rank, std::size_t rank_stride) {
  meter_.kernels([&] {
    const std::size_t first = first_rank * plan_.parts.stride + piece.chunk.first;
    const codec::Layout layout{.images = images,
                               .image_stride = rank_stride * plan_.parts.stride,
                               .slices = 1,
                               .slice_stride = 0,
                               .length = piece.chunk.length,
                               .padded = round_up(piece.chunk.length, codec_.block())};
    const codec::ConstWireImages from(slot(piece, index), piece.image_bytes);
    const View to = full_.part(first, full_.count - first);
    if (plan_.adds) {
      codec_.decode_onto(from, layout, to, stream_);
    } else {
      codec_.decode(from, layout, to, stream_);
    }
  });
}

}  // namespace zeropp::collective
