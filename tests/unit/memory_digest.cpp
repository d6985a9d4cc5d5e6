// ctest: name=memory_digest labels=sanitize
// The digest of memory on the host: the sum that its definition gives, whatever the views that
// it is made of; it tells any two buffers apart that differ by one byte or by two words that
// changed places.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/core/digest.hpp"
#include "kernels/core/memory_ops.hpp"
#include "tests/support/digest_reference.hpp"

namespace zeropp {
namespace {

using Bytes = std::vector<std::byte>;

Bytes drawn(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

/// The digest of elements [first, first + count) of 2 bytes.
std::uint64_t digest(const Bytes& bytes, std::size_t first, std::size_t count,
                     std::uint64_t before = 0) {
  host_memory_ops().digest({bytes.data() + 2 * first, count, Dtype::bf16}, first / 2, &before, {});
  return before;
}
std::uint64_t digest(const Bytes& bytes) { return digest(bytes, 0, bytes.size() / 2); }

TEST(Digest, IsTheSumOfItsDefinition) {
  for (const std::size_t count : {0U, 2U, 4U, 6U, 4094U, 4096U, 4098U, 100'002U}) {
    const Bytes bytes = drawn(count, 1);
    EXPECT_EQ(digest(bytes), test::digest_of(bytes)) << count;
  }
}

TEST(Digest, AddsUpOverViewsOfOneArray) {
  const Bytes bytes = drawn(20'002, 2);
  std::uint64_t sum = 0;
  for (const auto& [first, count] : {std::pair{6000U, 4001U}, {0U, 2U}, {2U, 5998U}})
    sum = digest(bytes, first, count, sum);
  EXPECT_EQ(sum, digest(bytes));
}

TEST(Digest, ChangesWithAnyByte) {
  Bytes bytes = drawn(258, 3);
  const std::uint64_t before = digest(bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::byte kept = bytes[at];
    for (int flipped = 1; flipped < 256; ++flipped) {
      bytes[at] = kept ^ static_cast<std::byte>(flipped);
      ASSERT_NE(digest(bytes), before) << "byte " << at << ", bits " << flipped;
    }
    bytes[at] = kept;
  }
}

TEST(Digest, ChangesWithAnyTwoWordsThatChangePlaces) {
  // Words that differ in their highest bit alone among them: the least that a sum may keep.
  std::vector<std::uint32_t> words{0, 1, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x3F800000};
  std::minstd_rand random(4);
  while (words.size() < 200) words.push_back(static_cast<std::uint32_t>(random()));
  Bytes bytes(words.size() * 4);
  const auto of_words = [&] {
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return digest(bytes);
  };
  const std::uint64_t before = of_words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (words[i] == words[j]) continue;
      std::swap(words[i], words[j]);
      ASSERT_NE(of_words(), before) << i << " and " << j;
      std::swap(words[i], words[j]);
    }
  }
}

TEST(Digest, HasMultipliersWithDifferentLowerHalves) {
  std::set<std::uint32_t> lower;
  for (std::uint32_t place = 0; place < 100'000; ++place) {
    const auto low = static_cast<std::uint32_t>(digest_multiplier(place));
    EXPECT_NE(low, 0U);
    EXPECT_TRUE(lower.insert(low).second) << place;
  }
}

TEST(Digest, RefusesMemoryOfADevice) {
  float value = 0;
  std::uint64_t sum = 0;
  EXPECT_THROW(host_memory_ops().digest({&value, 1, Dtype::fp32, MemoryKind::device}, 0, &sum, {}),
               std::invalid_argument);
}

}  // namespace
}  // namespace zeropp
