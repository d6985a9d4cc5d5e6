#include "kernels/codec/codec.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/codec/format.hpp"
#include "kernels/codec/fused.hpp"
#include "kernels/codec/wire.hpp"

namespace zeropp::codec {

#define ZEROPP_ENTRY(name) \
  namespace format::name { \
  struct Format;           \
  }
#include "codec_formats.inc"
#undef ZEROPP_ENTRY

namespace {

const std::vector<const FormatEntry*>& entries() {
  static const std::vector<const FormatEntry*> list = [] {
    std::vector<const FormatEntry*> found = {
#define ZEROPP_ENTRY(name) &format_entry<format::name::Format>(),
#include "codec_formats.inc"
#undef ZEROPP_ENTRY
    };
    std::ranges::sort(found, {}, [](const FormatEntry* entry) { return entry->info.name; });
    return found;
  }();
  return list;
}

}  // namespace

const std::vector<FormatInfo>& formats() {
  static const std::vector<FormatInfo> list = [] {
    std::vector<FormatInfo> infos;
    for (const FormatEntry* entry : entries()) infos.push_back(entry->info);
    return infos;
  }();
  return list;
}

const FormatEntry* find_format(std::string_view name) {
  const auto found =
      std::ranges::find(entries(), name, [](const FormatEntry* entry) { return entry->info.name; });
  return found == entries().end() ? nullptr : *found;
}

const FormatInfo* find_info(std::string_view name) {
  const FormatEntry* const entry = find_format(name);
  return entry == nullptr ? nullptr : &entry->info;
}

Codec::Codec(const CodecSpec& spec, Dtype memory, Backend backend)
    : backend_(backend), memory_(memory) {
  // Whatever made the spec, it keeps the parser's rules.
  const CodecSpec valid = validated(spec);
  name_ = to_string(valid);
  const bool narrow = valid.format == "none" && memory != Dtype::fp32;
  kernel_name_ = narrow ? name_of(memory) : std::string_view(valid.format);

  const FormatEntry& entry = *find_format(kernel_name_);
  const Variant variant = entry.variant(valid.options);
  ops_ = backend == Backend::host ? variant.host : variant.cuda;
  if (ops_ == nullptr) {
    throw std::invalid_argument("codec '" + to_string(spec) +
                                "': this build has no CUDA codecs; use the host back end");
  }
  for (const std::string& option : valid.options) kernel_name_ += "+" + option;
  block_ = valid.block > 0 ? valid.block : 1;
  params_.block = variant.unit > 0 ? variant.unit : block_;
  params_.numbers = variant.numbers;
  payload_bits_ = entry.info.bits;
  scale_bytes_ = variant.scale_bytes;
  scales_images_ = variant.scales_images;
  error_bound_ = variant.error_bound;
  rms_share_ = variant.rms_share;
  slope_tolerance_ = std::max(entry.info.slope_tolerance, variant.slope_tolerance);
}

std::size_t Codec::scale_offset(std::size_t n) const {
  return wire_shape(n, params_.block, payload_bits_, scale_bytes_).scale_offset;
}

std::size_t Codec::wire_bytes(std::size_t n) const {
  return wire_shape(n, block_, payload_bits_, scale_bytes_, scales_images_).bytes;
}

ReduceEncode::ReduceEncode(const Codec& from, const Codec& to)
    : from_(from), to_(to), fused_(find_fused(from.backend_, from.kernel_name_, to.kernel_name_)) {
  if (from.backend_ != to.backend_) {
    throw std::invalid_argument("codecs '" + from.name() + "' and '" + to.name() +
                                "' are bound to different back ends; bind both to one");
  }
}

void ReduceEncode::run(ConstWireImages in, std::size_t images, std::size_t slices,
                       std::size_t padded, WireImages out, float* scratch, StreamHandle stream,
                       const Draw& draw) const {
  if (fused_ != nullptr) {
    fused_(from_.params_, to_.params_, in, images, slices, padded, out, stream);
    return;
  }
  const std::size_t n = slices * padded;
  from_.decode_reduce(in, images, n, n, scratch, stream);
  const MemoryKind kind = from_.backend_ == Backend::host ? MemoryKind::host : MemoryKind::device;
  to_.encode(ConstView::of(scratch, n, kind), {slices, padded, 1, 0, padded, padded}, out, stream,
             draw);
}

}  // namespace zeropp::codec
