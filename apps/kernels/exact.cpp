// Exact differences of 16-bit values: counting what escapes, encoding, and decoding onto the copy.
// A variant is a width and the share of escapes: the codes of a width in turn, and each 32nd value
// far away, so that sizes have closed forms.
#include "kernels/codec/exact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"
#include "kernels/codec/exact_math.hpp"

namespace zeropp::kernels {

namespace {

using codec::Escapes;
using codec::ExactShape;

constexpr unsigned kWidths[] = {3, 5};
constexpr std::size_t kEscapeEvery = 32;
constexpr std::uint32_t kFar = 1000;
constexpr double kOperationsOfCode = 6;  ///< two orders, a difference, a zigzag, a comparison

/// Values and their copy, of n elements.
struct Differences {
  unsigned width;
  Dtype dtype;
  std::size_t n;
  Values base;

  [[nodiscard]] std::size_t blocks() const { return codec::exact_blocks(n); }
  [[nodiscard]] ExactShape shape() const { return {width, n / kEscapeEvery}; }
  [[nodiscard]] std::size_t image_bytes() const { return codec::exact_bytes(n, shape()); }
  [[nodiscard]] double value_bytes() const { return static_cast<double>(2 * n); }
  [[nodiscard]] std::uint32_t code(std::size_t i) const {
    if (i % kEscapeEvery == kEscapeEvery - 1) return kFar;
    return static_cast<std::uint32_t>(i) % ((1U << width) - 1U);
  }
  void fill_values(View memory) const {
    base.fill(memory);
    auto* const patterns = static_cast<std::uint16_t*>(memory.data);
    for (std::size_t i = 0; i < n; ++i) {
      patterns[i] = static_cast<std::uint16_t>(codec::value_of(code(i), patterns[i]));
    }
  }
  [[nodiscard]] Array copy() const { return {"copy", n, dtype, filled_with(base)}; }
  [[nodiscard]] Array values() const {
    return {"values", n, dtype, [*this](View memory, std::size_t) { fill_values(memory); }};
  }
};

/// Values, counts and image that the host computes once, for all sets and for the check.
struct OnHost {
  explicit OnHost(const Differences& of)
      : values(2 * of.n, MemoryKind::host),
        counts(codec::exact_count_bytes(of.n), MemoryKind::host),
        image(of.image_bytes(), MemoryKind::host) {
    const Buffer copy(2 * of.n, MemoryKind::host);
    const auto& ops = codec::exact_ops(Backend::host);
    const View from = values.view(of.n, of.dtype);
    const View to = copy.view(of.n, of.dtype);
    Escapes total{};
    of.fill_values(from);
    of.base.fill(to);
    ops.count(from, to, counts.data(), &total, {});
    ops.encode(from, to, counts.data(), of.shape(), image.data(), {});
  }

  Buffer values;
  Buffer counts;
  Buffer image;
};

/// An array of bytes, a multiple of four, empty at first.
Array bytes_array(std::string_view name, std::size_t bytes) {
  return {name, bytes / sizeof(float)};
}
/// An array that is a buffer of `host` at first.
Array filled_array(std::string_view name, const std::shared_ptr<const OnHost>& host,
                   Buffer OnHost::*buffer) {
  return {name, (*host.*buffer).bytes() / sizeof(float), Dtype::fp32,
          [host, buffer](View memory, std::size_t) {
            std::copy_n((*host.*buffer).data(), memory.bytes(),
                        static_cast<std::byte*>(memory.data));
          }};
}

Problem count_of(const Differences& of, const codec::ExactOps& ops) {
  return {.work = {.read = 2 * of.value_bytes(),
                   .written = static_cast<double>(of.blocks() * codec::kExactWidths * 2),
                   .operations = kOperationsOfCode * static_cast<double>(of.n)},
          .arrays = {of.values(), of.copy(), bytes_array("counts", codec::exact_count_bytes(of.n)),
                     bytes_array("total", sizeof(Escapes))},
          .bind = [&ops](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, &ops](StreamHandle stream) {
              ops.count(set[0], set[1], static_cast<std::byte*>(set[2].data),
                        static_cast<Escapes*>(set[3].data), stream);
            };
          },
          .check =
              [of](const Results& results) {
                Escapes wanted{};
                for (std::size_t i = 0; i < of.n; ++i) {
                  for (unsigned w = 1; w <= codec::kExactWidths; ++w) {
                    if (of.code(i) >= (1U << w) - 1U) ++wanted[w - 1];
                  }
                }
                Verdict verdict;
                verdict.same_bytes(results[3], std::as_bytes(std::span(wanted)));
                return verdict.text();
              }};
}

Problem encode_of(const Differences& of, const codec::ExactOps& ops) {
  const auto host = std::make_shared<const OnHost>(of);
  return {.work = {.read = 2 * of.value_bytes() + static_cast<double>(2 * of.blocks()),
                   .written = static_cast<double>(of.image_bytes()),
                   .operations = kOperationsOfCode * static_cast<double>(of.n)},
          .arrays = {of.values(), of.copy(), filled_array("counts", host, &OnHost::counts),
                     bytes_array("image", of.image_bytes())},
          .bind = [of, &ops](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, of, &ops](StreamHandle stream) {
              ops.encode(set[0], set[1], static_cast<std::byte*>(set[2].data), of.shape(),
                         static_cast<std::byte*>(set[3].data), stream);
            };
          },
          .check =
              [host](const Results& results) {
                Verdict verdict;
                verdict.same_bytes(results[3], host->image.span());
                return verdict.text();
              }};
}

Problem decode_of(const Differences& of, const codec::ExactOps& ops) {
  const auto host = std::make_shared<const OnHost>(of);
  return {.work = {.read = static_cast<double>(of.image_bytes()) + of.value_bytes(),
                   .written = of.value_bytes(),
                   .operations = kOperationsOfCode * static_cast<double>(of.n)},
          .arrays = {filled_array("image", host, &OnHost::image), of.copy()},
          .bind = [of, &ops](const Set& set, const ComputeDevice&, StreamHandle) -> Call {
            return [&set, of, &ops](StreamHandle stream) {
              ops.decode({static_cast<const std::byte*>(set[0].data), of.image_bytes()}, 1, of.n,
                         of.shape(), set[1], stream);
            };
          },
          .check =
              [host](const Results& results) {
                Verdict verdict;
                verdict.same_bytes(results[1], host->values.span());
                return verdict.text();
              }};
}

std::vector<Case> cases_of(const Choice& choice, const Kernel& kernel,
                           Problem (*make)(const Differences&, const codec::ExactOps&)) {
  std::vector<Case> cases;
  for (const unsigned width : kWidths) {
    for (const Dtype dtype : choice.dtypes) {
      if (dtype == Dtype::fp32) continue;
      const Differences of{width, dtype, choice.values, choice.source.normals(1, dtype)};
      cases.push_back({std::string(kernel.name), fmt::format("{}-bits", width),
                       std::string(name_of(dtype)), std::to_string(choice.values),
                       [of, make](const ComputeDevice& device) {
                         return make(of, codec::exact_ops(device.backend));
                       }});
    }
  }
  return cases;
}

std::vector<Case> exact_counts(const Choice& choice) {
  return cases_of(choice, exact_count, count_of);
}
std::vector<Case> exact_encodes(const Choice& choice) {
  return cases_of(choice, exact_encode, encode_of);
}
std::vector<Case> exact_decodes(const Choice& choice) {
  return cases_of(choice, exact_decode, decode_of);
}

}  // namespace

const Kernel exact_count{"exact_count", "what escapes of exact differences, at each width",
                         exact_counts};
const Kernel exact_encode{"exact_encode", "values as exact differences from a copy", exact_encodes};
const Kernel exact_decode{"exact_decode", "exact differences onto a copy", exact_decodes};

}  // namespace zeropp::kernels
