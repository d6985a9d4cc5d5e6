// ctest: name=comm_peers_let_go np=2 cuda=nccl timeout=120 program=own
// An error of one NCCL communicator, while a stream that others have work on waits for a rank that
// never comes, by flags in memory and not by NCCL: all communicators end at once, with the error
// and within the deadline of an abort, which would end the process; the stream goes on; and no
// operation on peers' memory begins from then on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::comm {
namespace {

using test::world;

void add_up(Communicator& group, const test::OnDevice& values, int root, NativeOp op) {
  const StreamHandle stream = test::stream().handle();
  group
      .native_collective({.op = op, .in = ConstView(values.view), .out = values.view, .root = root},
                         stream)
      ->wait(stream);
}

TEST(PeersMemory, IsLetGoBeforeAnyCommunicatorIsAborted) {
  if (world().size() < 2 || test::transport() != Transport::nccl || !nccl_can_take_copy_engines())
    GTEST_SKIP() << "needs GPUs, NCCL 2.28.3 and NVLink";
  world().set_topology(world().size());
  const Groups groups = test::make_groups({.copy_engines = true, .peer_stores = true});
  const Buffer memory = groups.make_memory(1U << 20U);
  const auto registered = groups.register_memory(memory, world().control());
  PeerMemory* const peers = groups.world->peer_memory(memory.span());
  ASSERT_NE(peers, nullptr);
  const test::OnDevice values(test::Poisoned(1024, Dtype::fp32));
  add_up(*groups.world, values, 0, NativeOp::all_reduce);
  test::stream().synchronize();
  // Rank 0 waits for rank 1, which begins nothing, and has a collective behind that.
  std::unique_ptr<Work> stored;
  if (world().control().rank() == 0) {
    (void)peers->begin(test::stream().handle());
    Bytes sent;
    stored = peers->stored(memory.span().size(), sent);
    add_up(*groups.world, values, 0, NativeOp::all_reduce);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(add_up(*groups.world, values, /*root=*/77, NativeOp::broadcast), Error);
  test::stream().synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_THAT([&] { (void)peers->begin(test::stream().handle()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("ended by an earlier error")));
  if (stored == nullptr) return;
  EXPECT_THAT([&] { stored->wait(test::stream().handle()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("let go by an earlier error")));
}

}  // namespace
}  // namespace zeropp::comm
