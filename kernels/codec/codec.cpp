#include "kernels/codec/codec.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernels/codec/fused.hpp"
#include "kernels/codec/registry.hpp"
#include "kernels/codec/wire.hpp"

namespace zeropp::codec {

void require_heeded(const CodecSpec& spec, std::span<const std::string_view> heeded) {
  for (const std::string& option : spec.options) {
    if (std::ranges::find(heeded, option) != heeded.end()) continue;
    throw std::invalid_argument("codec '" + to_string(spec) + "': this back end does not heed '+" +
                                option + "'; leave the option out");
  }
}

Codec::Codec(const CodecSpec& spec, Dtype memory, Backend backend) : backend_(backend) {
  // One way in: whatever made the spec, it has passed the parser.
  const CodecSpec valid = parse_codec(to_string(spec));
  name_ = to_string(valid);
  format_ = valid.format;
  if (format_ == "none" && memory != Dtype::fp32) format_ = name_of(memory);

  const FormatEntry& entry = *find_format(format_);
  ops_ = backend == Backend::host ? &entry.host : entry.cuda;
  if (ops_ == nullptr) {
    throw std::invalid_argument("codec '" + to_string(spec) +
                                "': this build has no CUDA codecs; use the host back end");
  }
  require_heeded(valid, ops_->options);
  params_.block = valid.block > 0 ? valid.block : 1;
  payload_bits_ = entry.info.bits;
  scale_bytes_ = entry.info.scale_bytes;
}

std::size_t Codec::wire_bytes(std::size_t n) const {
  return wire_shape(n, params_.block, payload_bits_, scale_bytes_).bytes;
}

ReduceEncode::ReduceEncode(const Codec& from, const Codec& to)
    : from_(from), to_(to), fused_(find_fused(from.backend_, from.format_, to.format_)) {
  if (from.backend_ != to.backend_) {
    throw std::invalid_argument("codecs '" + from.name() + "' and '" + to.name() +
                                "' are bound to different back ends; bind both to one");
  }
}

void ReduceEncode::run(ConstWireImages in, std::size_t images, std::size_t slices,
                       std::size_t padded, WireImages out, float* scratch,
                       StreamHandle stream) const {
  if (fused_ != nullptr) {
    fused_(from_.params_, to_.params_, in, images, slices, padded, out, stream);
    return;
  }
  const std::size_t n = slices * padded;
  from_.decode_reduce(in, images, n, n, scratch, stream);
  const MemoryKind kind = from_.backend_ == Backend::host ? MemoryKind::host : MemoryKind::device;
  to_.encode(ConstView::of(scratch, n, kind), {slices, padded, 1, 0, padded, padded}, out, stream);
}

}  // namespace zeropp::codec
