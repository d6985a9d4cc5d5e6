// ctest: name=comm_large_message np=2 cuda=mpi,nccl timeout=300 labels=nightly program=own
// One exchange, and one gather on the control plane, of more than 2^31 bytes, beyond the int counts
// of MPI.
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/comm/world.hpp"
#include "tests/support/on_device.hpp"

namespace zeropp::comm {
namespace {

TEST(LargeMessage, ArrivesWhole) {
  constexpr std::size_t kBytes = (std::size_t{1} << 31U) + 4099;
  test::world().set_topology(1);
  const Groups groups = test::make_groups();
  const int rank = groups.world->rank();
  std::vector<std::byte> buffer(kBytes);
  const auto words = kBytes / sizeof(std::uint32_t);
  auto* values = reinterpret_cast<std::uint32_t*>(buffer.data());
  const auto value_at = [](std::size_t i) { return static_cast<std::uint32_t>(i * 2654435761U); };
  std::fill_n(buffer.end() - 3, 3, rank == 0 ? std::byte{0x5C} : std::byte{0xA5});
  for (std::size_t i = 0; i < words; ++i) values[i] = rank == 0 ? value_at(i) : 0xA5A5A5A5U;
  const test::DeviceBytes memory(buffer);
  Bytes sent;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  if (rank == 0) sends.push_back({memory.data(), kBytes, 1});
  if (rank == 1) receives.push_back({memory.data(), kBytes, 0});
  groups.world->exchange(sends, receives, test::stream().handle(), sent)
      ->wait(test::stream().handle());
  memory.download().swap(buffer);
  values = reinterpret_cast<std::uint32_t*>(buffer.data());
  EXPECT_EQ(sent, (rank == 0 ? Bytes{0, kBytes} : Bytes{}));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words; ++i) wrong += values[i] != value_at(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(buffer.back(), std::byte{0x5C});
}

/// Neither part is beyond an int, and both together are.
TEST(LargeMessage, IsGathered) {
  constexpr std::size_t kBytes = (std::size_t{1} << 30U) + 4099;
  Control& control = test::world().control();
  std::string part(kBytes, static_cast<char>('a' + control.rank()));
  part.back() = '.';
  const std::vector<std::string> parts = control.gather(part);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ASSERT_EQ(parts[rank].size(), kBytes);
    for (std::size_t i = 0; i < kBytes - 1; i += 4097) {
      ASSERT_EQ(parts[rank][i], static_cast<char>('a' + rank)) << i;
    }
    EXPECT_EQ(parts[rank].back(), '.');
  }
}

}  // namespace
}  // namespace zeropp::comm
