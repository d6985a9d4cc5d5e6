// Sums of decoded images: into fp32, and encoded again, the step between the hops of a two-hop
// reduction (ZeRO++, section 3.3).
#include <fmt/format.h>

#include <algorithm>

#include "apps/kernels/codec_checks.hpp"
#include "apps/kernels/entries.hpp"
#include "kernels/codec/codec.hpp"

namespace zeropp::kernels {

namespace {

using codec::Codec;
using codec::CodecSpec;
using codec::Layout;
using codec::ReduceEncode;
using codec::WireImages;

/// Images of fp32 values, of which the sum is taken.
struct Summands {
  Summands(const CodecSpec& spec, std::size_t images_, std::size_t n_, const Source& source,
           Backend backend)
      : images(images_),
        n(n_),
        values(source.normals(1, Dtype::fp32)),
        measured(spec, Dtype::fp32, backend),
        host(spec, Dtype::fp32),
        image(measured.wire_bytes(n)) {}

  [[nodiscard]] double bytes() const { return static_cast<double>(images * image); }
  [[nodiscard]] double additions() const { return static_cast<double>(images * n); }
  [[nodiscard]] Array array() const {
    return {"images", images * image / sizeof(float), Dtype::fp32,
            [copy = *this](View memory, std::size_t) {
              encode_on_host(copy.host, copy.values, Dtype::fp32, copy.images, copy.n, memory);
            }};
  }
  [[nodiscard]] WireImages in(const View& memory) const {
    return {static_cast<std::byte*>(memory.data), image};
  }

  std::size_t images;
  std::size_t n;  ///< of one image
  Values values;
  Codec measured;
  Codec host;
  std::size_t image;  ///< bytes of one
};

/// The exact sums of what was encoded, and how far theirs may lie from them.
struct Wanted {
  explicit Wanted(const Summands& s) : sum(s.n), tolerance(s.n) {
    for (std::size_t image = 0; image < s.images; ++image) {
      const auto value = [&](std::size_t i) { return s.values(image * s.n + i); };
      for_each_bound(s.host, s.n, value, [&](std::size_t i, double promised) {
        const double exact = value(i);
        sum[i] += exact;
        tolerance[i] += promised + rounding(exact, Dtype::fp32);
      });
    }
  }
  std::vector<double> sum;
  std::vector<double> tolerance;
};

Problem sum_of(const Summands& s, Backend backend) {
  return {.work = {.read = s.bytes(),
                   .written = static_cast<double>(s.n * sizeof(float)),
                   .operations = 2 * s.additions()},
          .arrays = {s.array(), {"sum", s.n}},
          .bind = [s](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, s](StreamHandle stream) {
              s.measured.decode_reduce(s.in(set[0]), s.images, s.n, s.n, set[1].as<float>(),
                                       stream);
            };
          },
          .check =
              [s, backend](const Results& results) {
                Verdict verdict;
                const Result got = results[1];
                if (backend == Backend::cuda) {
                  const Result images = results[0];
                  const Buffer wanted(s.n * sizeof(float), MemoryKind::host);
                  s.host.decode_reduce({images.bytes(), s.image}, s.images, s.n, s.n,
                                       reinterpret_cast<float*>(wanted.data()), {});
                  verdict.same_bytes(got, wanted.span());
                  return verdict.text();
                }
                const Wanted wanted(s);
                for (std::size_t i = 0; i < s.n; ++i) {
                  verdict.close(got, i, wanted.sum[i], wanted.tolerance[i]);
                }
                return verdict.text();
              }};
}

/// Checks what the encoded sum decodes to against the exact sum: within both codecs' bounds. That
/// of the second is for the sum of what was decoded: where a format clips, its bound falls as the
/// value grows.
std::string check_encoded_sum(const Summands& s, const CodecSpec& to, const Result& images,
                              const Result& got) {
  Verdict verdict;
  const Wanted wanted(s);
  std::vector<float> sum(s.n);
  s.host.decode_reduce({images.bytes(), s.image}, s.images, s.n, s.n, sum.data(), {});
  std::vector<float> decoded(s.n);
  const Codec host(to, Dtype::fp32);
  host.decode({got.bytes(), host.wire_bytes(s.n)}, Layout::contiguous(s.n),
              View::of(decoded.data(), s.n), {});
  const auto value = [&](std::size_t i) { return sum[i]; };
  for_each_bound(host, s.n, value, [&](std::size_t i, double promised) {
    const double tolerance = wanted.tolerance[i] + promised;
    if (std::abs(decoded[i] - wanted.sum[i]) <= tolerance) return;
    verdict.fail(fmt::format("value {} of the image decodes to {:.7g}, wanted {:.7g} +- {:.2g}", i,
                             decoded[i], wanted.sum[i], tolerance));
  });
  return verdict.text();
}

Problem encoded_sum_of(const Summands& s, const CodecSpec& to, Backend backend) {
  const Codec into(to, Dtype::fp32, backend);
  const ReduceEncode operation(s.measured, into);
  const std::size_t bytes = into.wire_bytes(s.n);
  return {
      .work = {.read = s.bytes(),
               .written = static_cast<double>(bytes),
               .operations =
                   2 * s.additions() + encode_operations(into) * static_cast<double>(s.n)},
      .arrays = {s.array(),
                 {"image", bytes / sizeof(float)},
                 {.name = "scratch", .count = operation.scratch_elements(1, s.n), .shared = true}},
      .bind = [s, operation](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
        return [&set, s, operation](StreamHandle stream) {
          operation.run(s.in(set[0]), s.images, 1, s.n, {static_cast<std::byte*>(set[1].data), 0},
                        set[2].as<float>(), stream);
        };
      },
      .check =
          [s, to, backend](const Results& results) {
            const Result got = results[1];
            const Result images = results[0];
            if (backend == Backend::host) return check_encoded_sum(s, to, images, got);
            const ReduceEncode host(s.host, Codec(to, Dtype::fp32));
            std::vector<float> scratch(host.scratch_elements(1, s.n));
            const Buffer wanted(got.view().bytes(), MemoryKind::host);
            host.run({images.bytes(), s.image}, s.images, 1, s.n, {wanted.data(), 0},
                     scratch.data(), {});
            Verdict verdict;
            verdict.same_bytes(got, wanted.span());
            return verdict.text();
          },
      .path = std::string(operation.path())};
}

std::string shape_of(std::size_t images, std::size_t values) {
  return fmt::format("{}x{}", images, values / images);
}

std::vector<Case> sums(const Choice& choice) {
  std::vector<Case> cases;
  for (const CodecSpec& spec : choice.codecs) {
    for (const std::size_t images : choice.images) {
      cases.push_back(
          {std::string(decode_reduce.name), codec::to_string(spec), "fp32",
           shape_of(images, choice.values),
           [=, n = choice.values / images, source = choice.source](const ComputeDevice& device) {
             return sum_of(Summands(spec, images, n, source, device.backend), device.backend);
           }});
    }
  }
  return cases;
}

std::vector<Case> encoded_sums(const Choice& choice) {
  std::vector<Case> cases;
  for (const CodecSpec& from : choice.codecs) {
    for (const CodecSpec& to : choice.codecs) {
      for (const std::size_t images : choice.images) {
        cases.push_back(
            {std::string(decode_reduce_encode.name),
             codec::to_string(from) + '>' + codec::to_string(to), "fp32",
             shape_of(images, choice.values),
             [=, n = choice.values / images, source = choice.source](const ComputeDevice& device) {
               return encoded_sum_of(Summands(from, images, n, source, device.backend), to,
                                     device.backend);
             }});
      }
    }
  }
  return cases;
}

}  // namespace

const Kernel decode_reduce{"decode_reduce", "several wire images summed into fp32", sums};
const Kernel decode_reduce_encode{"decode_reduce_encode",
                                  "several wire images summed, and the sum encoded", encoded_sums};

}  // namespace zeropp::kernels
