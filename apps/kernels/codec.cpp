// Encoding and decoding one image; decoding into a sum; the slice reorder of the first hop of a
// two-hop reduction (ZeRO++, section 3.3), which is an encode with another layout.
#include "kernels/codec/codec.hpp"

#include <fmt/format.h>

#include "apps/kernels/codec_checks.hpp"
#include "apps/kernels/entries.hpp"

namespace zeropp::kernels {

namespace {

using codec::Codec;
using codec::CodecSpec;
using codec::Layout;
using codec::WireImages;

/// A codec and values in memory, on the device that is measured and on the host.
struct Bound {
  Bound(const CodecSpec& spec, Dtype dtype_, const Layout& layout_, const Source& source,
        Backend backend)
      : dtype(dtype_),
        layout(layout_),
        values(source.normals(1, dtype)),
        measured(spec, dtype, backend),
        host(spec, dtype),
        image(measured.wire_bytes(layout.wire_elements())) {}

  [[nodiscard]] std::size_t count() const { return layout.images * layout.slices * layout.length; }
  [[nodiscard]] WireImages images(const View& memory) const {
    return {static_cast<std::byte*>(memory.data), image};
  }
  /// Size of the images, counted in fp32 elements: images are multiples of 16 bytes.
  [[nodiscard]] std::size_t image_elements() const { return layout.images * image / sizeof(float); }
  [[nodiscard]] Array array_of_values(bool filled) const {
    if (!filled) return {"values", count(), dtype};
    return {"values", count(), dtype, filled_with(values)};
  }
  [[nodiscard]] double value_bytes() const { return static_cast<double>(count() * size_of(dtype)); }
  [[nodiscard]] double image_bytes() const { return static_cast<double>(layout.images * image); }

  Dtype dtype;
  Layout layout;
  Values values;
  Codec measured;
  Codec host;
  std::size_t image;  ///< bytes of one
};

/// Checks images. On a GPU the image is the host's, to the byte. On the host its values, decoded
/// one after the other without the layout that encoded them, keep the format's bound.
std::string check_images(const Bound& bound, const Result& got, Backend backend) {
  Verdict verdict;
  if (backend == Backend::cuda) {
    const Buffer values(bound.count() * size_of(bound.dtype), MemoryKind::host);
    const Buffer wanted(bound.layout.images * bound.image, MemoryKind::host);
    const View view = values.view(bound.count(), bound.dtype);
    bound.values.fill(view);
    bound.host.encode(view, bound.layout, {wanted.data(), bound.image}, {});
    verdict.same_bytes(got, wanted.span());
    return verdict.text();
  }
  const Layout& layout = bound.layout;
  const std::size_t n = layout.wire_elements();
  const Buffer decoded = Buffer::zeros(layout.images * n, Dtype::fp32, MemoryKind::host);
  const View view = decoded.view(layout.images * n, Dtype::fp32);
  bound.host.decode({got.bytes(), bound.image}, {layout.images, n, 1, 0, n, n}, view, {});
  for (std::size_t slice = 0; slice < layout.images * layout.slices; ++slice) {
    const std::size_t begin =
        slice / layout.slices * layout.image_stride + slice % layout.slices * layout.slice_stride;
    const auto* const values = view.as<float>() + slice * layout.padded;
    const auto value = [&](std::size_t i) { return bound.values(begin + i); };
    for_each_bound(bound.host, layout.length, value, [&](std::size_t i, double promised) {
      const double wanted = value(i);
      const double found = values[i];
      if (std::abs(found - wanted) <= promised + rounding(wanted, Dtype::fp32)) return;
      verdict.fail(fmt::format("value {} of the image decodes to {:.7g}, wanted {:.7g} +- {:.2g}",
                               begin + i, found, wanted, promised));
    });
  }
  return verdict.text();
}

Problem encode_of(const CodecSpec& spec, Dtype dtype, const Layout& layout, const Source& source,
                  Backend backend) {
  const Bound bound(spec, dtype, layout, source, backend);
  return {
      .work = {.read = bound.value_bytes(),
               .written = bound.image_bytes(),
               .operations =
                   encode_operations(bound.measured) * static_cast<double>(bound.count())},
      .arrays = {bound.array_of_values(true), {"image", bound.image_elements()}},
      .bind = [bound](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
        return [&set, bound](StreamHandle stream) {
          bound.measured.encode(set[0], bound.layout, bound.images(set[1]), stream);
        };
      },
      .check = [bound, backend](
                   const Results& results) { return check_images(bound, results[1], backend); }};
}

Array encoded(const Bound& bound) {
  return {"image", bound.image_elements(), Dtype::fp32, [bound](View memory, std::size_t) {
            encode_on_host(bound.host, bound.values, bound.dtype, 1, bound.count(), memory);
          }};
}

Problem decode_of(const CodecSpec& spec, Dtype dtype, std::size_t n, const Source& source,
                  Backend backend) {
  const Bound bound(spec, dtype, Layout::contiguous(n), source, backend);
  return {.work = {.read = bound.image_bytes(),
                   .written = bound.value_bytes(),
                   .operations = static_cast<double>(n)},
          .arrays = {encoded(bound), bound.array_of_values(false)},
          .bind = [bound](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, bound](StreamHandle stream) {
              bound.measured.decode(bound.images(set[0]), bound.layout, set[1], stream);
            };
          },
          .check =
              [bound, n, backend](const Results& results) {
                Verdict verdict;
                const Result got = results[1];
                if (backend == Backend::cuda) {
                  const Result image = results[0];
                  const Buffer wanted(n * size_of(bound.dtype), MemoryKind::host);
                  bound.host.decode({image.bytes(), bound.image}, bound.layout,
                                    wanted.view(n, bound.dtype), {});
                  verdict.same_bytes(got, wanted.span());
                  return verdict.text();
                }
                for_each_bound(bound.host, n, bound.values, [&](std::size_t i, double promised) {
                  const double wanted = bound.values(i);
                  verdict.close(got, i, wanted,
                                promised + rounding(std::abs(wanted) + promised, bound.dtype));
                });
                return verdict.text();
              }};
}

Problem decode_add_of(const CodecSpec& spec, std::size_t n, const Source& source, Backend backend) {
  const Bound bound(spec, Dtype::fp32, Layout::contiguous(n), source, backend);
  const Values before = source.normals(2, Dtype::fp32);
  return {.work = {.read = bound.image_bytes() + bound.value_bytes(),
                   .written = bound.value_bytes(),
                   .operations = 2 * static_cast<double>(n)},
          .arrays = {encoded(bound), {"sum", n, Dtype::fp32, filled_with(before)}},
          .bind = [bound, n](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, bound, n](StreamHandle stream) {
              bound.measured.decode_add(bound.images(set[0]), n, n, set[1].as<float>(), stream);
            };
          },
          .check =
              [bound, before, n, backend](const Results& results) {
                Verdict verdict;
                const Result got = results[1];
                if (backend == Backend::cuda) {
                  const Result image = results[0];
                  const Buffer wanted(n * sizeof(float), MemoryKind::host);
                  const View sums = wanted.view(n, Dtype::fp32);
                  before.fill(sums);
                  bound.host.decode_add({image.bytes(), bound.image}, n, n, sums.as<float>(), {});
                  verdict.same_bytes(got, wanted.span());
                  return verdict.text();
                }
                for_each_bound(bound.host, n, bound.values, [&](std::size_t i, double promised) {
                  const double value = bound.values(i);
                  const double wanted = before(i) + value;
                  verdict.close(
                      got, i, wanted,
                      promised + rounding(std::abs(before(i)) + std::abs(value), Dtype::fp32));
                });
                return verdict.text();
              }};
}

/// Nodes and ranks of a node whose parts are reordered: an image for each rank of a node, of a
/// slice for each node.
constexpr std::size_t kNodes = 4;
constexpr std::size_t kLocals = 8;

/// n values, in memory by rank = node * kLocals + local, with slices of whole blocks.
Layout reorder_layout(std::size_t n, const CodecSpec& spec) {
  const std::size_t block = spec.block > 0 ? spec.block : 1;
  const std::size_t part = std::max<std::size_t>(n / (kNodes * kLocals) / block, 1) * block;
  return {.images = kLocals,
          .image_stride = part,
          .slices = kNodes,
          .slice_stride = kLocals * part,
          .length = part,
          .padded = part};
}

template <class Make>
std::vector<Case> each_codec(const Choice& choice, const Kernel& kernel, bool sums,
                             const Make& make) {
  std::vector<Case> cases;
  const std::vector<Dtype> dtypes = sums ? std::vector{Dtype::fp32} : choice.dtypes;
  for (const CodecSpec& spec : choice.codecs) {
    for (const Dtype dtype : dtypes) {
      cases.push_back({std::string(kernel.name), codec::to_string(spec),
                       std::string(name_of(dtype)), std::to_string(choice.values),
                       [=, n = choice.values, source = choice.source](const ComputeDevice& device) {
                         return make(spec, dtype, n, source, device.backend);
                       }});
    }
  }
  return cases;
}

std::vector<Case> encodes(const Choice& choice) {
  return each_codec(
      choice, encode, false,
      [](const CodecSpec& spec, Dtype dtype, std::size_t n, const Source& source, Backend backend) {
        return encode_of(spec, dtype, Layout::contiguous(n), source, backend);
      });
}

std::vector<Case> decodes(const Choice& choice) {
  return each_codec(choice, decode, false, decode_of);
}

std::vector<Case> decode_adds(const Choice& choice) {
  return each_codec(choice, decode_add, true,
                    [](const CodecSpec& spec, Dtype, std::size_t n, const Source& source,
                       Backend backend) { return decode_add_of(spec, n, source, backend); });
}

std::vector<Case> reorders(const Choice& choice) {
  auto cases = each_codec(
      choice, reorder_encode, false,
      [](const CodecSpec& spec, Dtype dtype, std::size_t n, const Source& source, Backend backend) {
        return encode_of(spec, dtype, reorder_layout(n, spec), source, backend);
      });
  for (Case& each : cases) each.shape = fmt::format("{}x{}:{}", kNodes, kLocals, each.shape);
  return cases;
}

}  // namespace

const Kernel encode{"encode", "values into a wire image", encodes};
const Kernel decode{"decode", "a wire image into values", decodes};
const Kernel decode_add{"decode_add", "a wire image added to fp32 sums", decode_adds};
const Kernel reorder_encode{
    "reorder_encode", "parts of 4 x 8 ranks, reordered by rank of a node and encoded", reorders};

}  // namespace zeropp::kernels
