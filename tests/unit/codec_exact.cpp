// ctest: name=codec_exact labels=sanitize timeout=300
// Exact differences: every pattern to every other survives. Counts, shapes and images equal the
// description, which is written bit by bit. Decoding gives the values, whatever the copy was.
// Images of noise give values, and touch nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/codec/exact.hpp"
#include "kernels/codec/exact_math.hpp"
#include "kernels/core/host_for.hpp"
#include "tests/support/exact_cases.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::test {
namespace {

using codec::Escapes;
using codec::exact_bytes;
using codec::ExactShape;

const codec::ExactOps& host() { return codec::exact_ops(Backend::host); }

ConstView view_of(const Patterns& patterns, Dtype dtype = Dtype::bf16) {
  return {patterns.data(), patterns.size(), dtype};
}

/// Number of values that do not survive beside this copy. Optimized: all copies are four billion
/// pairs.
[[gnu::flatten, gnu::optimize("O3")]] std::uint32_t failures_beside(std::uint32_t copy) {
  std::uint32_t failures = 0;
  for (std::uint32_t value = 0; value < 1U << 16U; ++value) {
    const std::uint32_t code = codec::difference_code(value, copy);
    failures +=
        static_cast<std::uint32_t>((code > 0xFFFFU) | (codec::value_of(code, copy) != value));
  }
  return failures;
}

TEST(Exact, EveryPatternToEveryOtherSurvives) {
  std::vector<std::uint32_t> wrong(1U << 16U);
  host_for("all pairs", wrong.size(), [&wrong](std::size_t copy) {
    wrong[copy] = failures_beside(static_cast<std::uint32_t>(copy));
  });
  EXPECT_EQ(std::ranges::count(wrong, 0U), 1 << 16);
  for (std::uint32_t copy = 0; copy < 1U << 16U; copy += 251) {
    for (std::uint32_t value = 0; value < 1U << 16U; ++value) {
      ASSERT_EQ(
          codec::difference_code(value, copy),
          reference_code(static_cast<std::uint16_t>(value), static_cast<std::uint16_t>(copy)));
    }
  }
}

TEST(Exact, ImagesAreThoseOfTheDescriptionAndDecodeToTheValues) {
  for (const std::size_t n : kExactCounts) {
    for (const ExactCase& each : exact_cases(n, static_cast<unsigned>(n))) {
      SCOPED_TRACE(testing::Message() << n << " values, " << each.name);
      const std::size_t bytes = codec::exact_count_bytes(n);
      std::vector<std::byte> counts(bytes + 8, std::byte{0xA5});
      Escapes total;
      total.fill(77);
      host().count(view_of(each.values), view_of(each.copy), counts.data(), &total, {});
      ASSERT_EQ(total, reference_escapes(each.values, each.copy));
      for (const ExactShape& shape : exact_shapes(n, total)) {
        SCOPED_TRACE(testing::Message() << "width " << shape.width << ", " << shape.escapes);
        std::vector<std::byte> image(exact_bytes(n, shape) + 8, std::byte{0xA5});
        const auto guard_intact = [&](const std::vector<std::byte>& memory) {
          return std::all_of(memory.end() - 8, memory.end(),
                             [](std::byte b) { return b == std::byte{0xA5}; });
        };
        host().encode(view_of(each.values), view_of(each.copy), counts.data(), shape, image.data(),
                      {});
        ASSERT_TRUE(guard_intact(image) && guard_intact(counts));
        image.resize(image.size() - 8);
        if (shape.width != 0 || total[0] == 0) {
          ASSERT_EQ(image, reference_image(each.values, each.copy, shape));
        }
        // Three copies, of which each has its own image.
        Patterns copies;
        std::vector<std::byte> images;
        for (int k = 0; k < 3; ++k) {
          copies.insert(copies.end(), each.copy.begin(), each.copy.end());
          images.insert(images.end(), image.begin(), image.end());
        }
        copies.push_back(0xA5A5);
        host().decode({images.data(), image.size()}, 3, n, shape,
                      {copies.data(), 3 * n, Dtype::bf16}, {});
        const Patterns expected = reference_decoded(each.values, each.copy, shape);
        for (std::size_t k = 0; k < 3; ++k) {
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                 copies.begin() + static_cast<std::ptrdiff_t>(k * n)));
        }
        ASSERT_EQ(copies.back(), 0xA5A5);
      }
    }
  }
}

TEST(Exact, TheShapeHasTheFewestBytes) {
  std::mt19937 draw(5);
  for (int turn = 0; turn < 2000; ++turn) {
    const std::size_t n = 1 + draw() % 100'000;
    Escapes escapes;
    std::uint64_t left = draw() % (n + 1);
    for (std::uint64_t& each : escapes) {
      each = left;
      left -= draw() % (left + 1);
    }
    const ExactShape best = codec::exact_shape(n, escapes);
    EXPECT_EQ(best.width == 0, escapes[0] == 0);
    if (best.width > 0 && best.width <= codec::kExactWidths) {
      EXPECT_EQ(best.escapes, escapes[best.width - 1]);
    }
    if (best.width == 0) continue;
    EXPECT_LE(exact_bytes(n, best), exact_bytes(n, {codec::kWholeWidth, 0}));
    for (unsigned w = 1; w <= codec::kExactWidths; ++w) {
      EXPECT_LE(exact_bytes(n, best), exact_bytes(n, {w, escapes[w - 1]}));
    }
  }
}

TEST(Exact, Fp32ValuesAreRoundedToTheCopysType) {
  constexpr std::size_t n = 5000;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    Poisoned values(n, Dtype::fp32);
    Poisoned rounded(n, dtype);
    Poisoned copy(n, dtype);
    for (std::size_t i = 0; i < n; ++i) {
      const float value = i % 97 == 0 ? 1e30F : value_of(Dtype::fp32, 1, i);
      store(values.view, i, value);
      store(rounded.view, i, value);
      store(copy.view, i, value * (i % 5 == 0 ? 1.01F : 1.0F));
    }
    std::vector<std::byte> counts(codec::exact_count_bytes(n));
    std::vector<std::byte> of_rounded(counts.size());
    Escapes total;
    Escapes wanted;
    host().count(values.view, copy.view, counts.data(), &total, {});
    host().count(rounded.view, copy.view, of_rounded.data(), &wanted, {});
    ASSERT_EQ(total, wanted);
    for (const ExactShape& shape : exact_shapes(n, total)) {
      std::vector<std::byte> image(exact_bytes(n, shape));
      std::vector<std::byte> expected(image.size());
      host().encode(values.view, copy.view, counts.data(), shape, image.data(), {});
      host().encode(rounded.view, copy.view, of_rounded.data(), shape, expected.data(), {});
      ASSERT_EQ(image, expected);
    }
  }
}

TEST(Exact, ImagesOfNoiseTouchNothingElse) {
  std::mt19937 draw(6);
  for (int turn = 0; turn < 3000; ++turn) {
    const std::size_t n = 1 + draw() % 3000;
    const ExactShape shape{1 + static_cast<unsigned>(draw()) % codec::kExactWidths, draw() % 40};
    // An allocation of its own, so that a sanitizer sees what is read beyond it.
    std::vector<std::byte> image(exact_bytes(n, shape));
    for (std::byte& each : image) each = static_cast<std::byte>(draw());
    Patterns copies(n + 1, 0xA5A5);
    host().decode({image.data(), image.size()}, 1, n, shape, {copies.data(), n, Dtype::bf16}, {});
    ASSERT_EQ(copies.back(), 0xA5A5);
  }
}

TEST(Exact, RefusesWhatItCannotTake) {
  Patterns few(10);
  Patterns more(11);
  std::vector<std::byte> counts(codec::exact_count_bytes(11));
  Escapes total;
  EXPECT_THROW(host().count(view_of(few), view_of(more), counts.data(), &total, {}),
               std::logic_error);
  EXPECT_THROW(host().count(view_of(few), view_of(few, Dtype::fp32), counts.data(), &total, {}),
               std::logic_error);
  EXPECT_THROW(host().count(view_of(few, Dtype::fp16), view_of(few), counts.data(), &total, {}),
               std::logic_error);
  EXPECT_THROW(host().decode({counts.data(), 0}, 2, 10, {}, {more.data(), 11, Dtype::bf16}, {}),
               std::logic_error);
  EXPECT_THROW((void)exact_bytes(10, {9, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::test
