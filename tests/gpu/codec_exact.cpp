// ctest: name=codec_exact_cuda timeout=300
// Exact differences on the GPU: counts, images and copies are the host's bytes, of any pairs, in
// memory on any boundary, for each shape.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/codec/exact.hpp"
#include "tests/support/codec_gpu.hpp"
#include "tests/support/exact_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Escapes;
using codec::ExactShape;

const codec::ExactOps& on(Backend backend) { return codec::exact_ops(backend); }

void fill(const Twin& twin, const Patterns& patterns, std::size_t times = 1) {
  for (std::size_t k = 0; k < times && !patterns.empty(); ++k) {
    std::memcpy(twin.host() + k * 2 * patterns.size(), patterns.data(), 2 * patterns.size());
  }
  twin.upload();
}

/// `shapes`: if none are given, exact_shapes().
void compare(const ExactCase& each, std::size_t shift, std::vector<ExactShape> shapes = {}) {
  const std::size_t n = each.values.size();
  const Twin values(2 * n, shift);
  const Twin copy(2 * n, shift);
  fill(values, each.values);
  fill(copy, each.copy);
  const auto at = [n](const Twin& twin, Backend backend) {
    return backend == Backend::host ? twin.host_view(n, Dtype::bf16)
                                    : twin.device_view(n, Dtype::bf16);
  };
  const Twin counts(codec::exact_count_bytes(n));
  const Twin total(sizeof(Escapes));
  on(Backend::host)
      .count(at(values, Backend::host), at(copy, Backend::host), counts.host(),
             reinterpret_cast<Escapes*>(total.host()), {});
  on(Backend::cuda)
      .count(at(values, Backend::cuda), at(copy, Backend::cuda), counts.device(),
             reinterpret_cast<Escapes*>(total.device()), gpu_stream().handle());
  ASSERT_TRUE(total.same(8));
  ASSERT_TRUE(counts.same(2));
  Escapes escapes;
  std::memcpy(&escapes, total.host(), sizeof(escapes));
  if (shapes.empty()) shapes = exact_shapes(n, escapes);
  for (const ExactShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "width " << shape.width << ", " << shape.escapes);
    const std::size_t bytes = codec::exact_bytes(n, shape);
    const Twin image(3 * bytes);
    on(Backend::host)
        .encode(at(values, Backend::host), at(copy, Backend::host), counts.host(), shape,
                image.host(), {});
    on(Backend::cuda)
        .encode(at(values, Backend::cuda), at(copy, Backend::cuda), counts.device(), shape,
                image.device(), gpu_stream().handle());
    ASSERT_TRUE(image.same(1));
    for (const std::size_t k : {1U, 2U}) {
      if (bytes > 0) std::memcpy(image.host() + k * bytes, image.host(), bytes);
    }
    image.upload();
    const Twin copies(3 * 2 * n, shift);
    fill(copies, each.copy, 3);
    on(Backend::host)
        .decode({image.host(), bytes}, 3, n, shape, copies.host_view(3 * n, Dtype::bf16), {});
    on(Backend::cuda)
        .decode({image.device(), bytes}, 3, n, shape, copies.device_view(3 * n, Dtype::bf16),
                gpu_stream().handle());
    ASSERT_TRUE(copies.same(2));
  }
  ASSERT_TRUE(values.same(2));
  ASSERT_TRUE(copy.same(2));
}

TEST(CudaExact, HasTheHostsBytes) {
  for (const std::size_t n : kExactCounts) {
    for (const ExactCase& each : exact_cases(n, static_cast<unsigned>(n) + 1)) {
      for (const std::size_t shift : {0U, 2U}) {
        SCOPED_TRACE(testing::Message()
                     << n << " values, " << each.name << ", " << shift << " bytes from a boundary");
        compare(each, shift);
      }
    }
  }
}

/// More blocks than one scan adds up.
TEST(CudaExact, HasTheHostsBytesOfManyBlocks) {
  constexpr std::size_t n = 9'000'000;
  Patterns copy(n);
  Patterns values(n);
  for (std::size_t i = 0; i < n; ++i) {
    copy[i] = static_cast<std::uint16_t>(i * 2654435761U >> 13U);
    values[i] = static_cast<std::uint16_t>(copy[i] + i % 11);
  }
  compare({"many", values, copy}, 0, {{2, n}, {3, n / 2}});
}

TEST(CudaExact, RoundsFp32ValuesAsTheHostDoes) {
  constexpr std::size_t n = 100'003;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    const Twin values(4 * n);
    const Twin copy(2 * n);
    const std::vector<float> drawn = hostile_values(n, 64, 44);
    std::memcpy(values.host(), drawn.data(), 4 * n);
    with_type(dtype, [&]<class T>(T*) {
      for (std::size_t i = 0; i < n; ++i) {
        copy.host_view(n, dtype).as<T>()[i] = saturating_cast<T>(drawn[i] * 1.003F);
      }
    });
    values.upload();
    copy.upload();
    const Twin counts(codec::exact_count_bytes(n));
    const Twin total(sizeof(Escapes));
    on(Backend::host)
        .count(values.host_view(n, Dtype::fp32), copy.host_view(n, dtype), counts.host(),
               reinterpret_cast<Escapes*>(total.host()), {});
    on(Backend::cuda)
        .count(values.device_view(n, Dtype::fp32), copy.device_view(n, dtype), counts.device(),
               reinterpret_cast<Escapes*>(total.device()), gpu_stream().handle());
    ASSERT_TRUE(total.same(8));
    Escapes escapes;
    std::memcpy(&escapes, total.host(), sizeof(escapes));
    for (const ExactShape& shape : exact_shapes(n, escapes)) {
      const Twin image(codec::exact_bytes(n, shape));
      on(Backend::host)
          .encode(values.host_view(n, Dtype::fp32), copy.host_view(n, dtype), counts.host(), shape,
                  image.host(), {});
      on(Backend::cuda)
          .encode(values.device_view(n, Dtype::fp32), copy.device_view(n, dtype), counts.device(),
                  shape, image.device(), gpu_stream().handle());
      ASSERT_TRUE(image.same(1));
    }
  }
}

}  // namespace
}  // namespace zeropp::test
