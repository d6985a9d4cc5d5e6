// Images of exact differences: any bytes give some values and touch nothing else, and from these to
// any other values an image survives.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/codec/exact.hpp"
#include "tests/support/fuzz_target.hpp"

namespace {

using namespace zeropp;

constexpr std::uint16_t kGuard = 0xA5C3;

/// Memory of its own, so that a sanitizer sees what is read beyond it; zeros after the input.
std::vector<std::byte> bytes_of(const std::uint8_t* data, std::size_t size, std::size_t count) {
  std::vector<std::byte> bytes(count);
  if (std::min(size, count) > 0) std::memcpy(bytes.data(), data, std::min(size, count));
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t head = 4;
  if (size < head) return 0;
  const codec::ExactOps& ops = codec::exact_ops(Backend::host);
  const unsigned width = data[0] % (codec::kExactWidths + 2);
  const codec::ExactShape shape{width > codec::kExactWidths ? codec::kWholeWidth : width, data[1]};
  const std::size_t n = data[2] + 256U * (data[3] % 5U);

  const std::vector<std::byte> image =
      bytes_of(data + head, size - head, codec::exact_bytes(n, shape));
  std::vector<std::uint16_t> copies(n + 1, kGuard);
  const View view(copies.data(), n, Dtype::bf16);
  ops.decode({image.data(), image.size()}, 1, n, shape, view, {});

  const std::vector<std::byte> values = bytes_of(data + head, size - head, n * 2);
  const ConstView wanted(values.data(), n, Dtype::bf16);
  std::vector<std::byte> counts(codec::exact_count_bytes(n));
  codec::Escapes escapes{};
  ops.count(wanted, view, counts.data(), &escapes, {});
  const codec::ExactShape best = codec::exact_shape(n, escapes);
  std::vector<std::byte> made(codec::exact_bytes(n, best));
  ops.encode(wanted, view, counts.data(), best, made.data(), {});
  ops.decode({made.data(), made.size()}, 1, n, best, view, {});
  if (n > 0 && std::memcmp(copies.data(), values.data(), n * 2) != 0)
    test::fuzz_failure("an image lost a value");
  if (copies[n] != kGuard) test::fuzz_failure("a decode wrote after the copies");
  return 0;
}
