// ctest: name=collective_peer_stores np=4 cuda=nccl timeout=240 program=own
// Reductions that encode into the memory of the rank that sums (comm::PeerMemory) beside those that
// exchange images: the same bits and bytes, for every codec, depth, stride and ragged length; and
// many runs without a wait of the host between them, over memory that each rank spoils just before
// it begins, with ranks that come late, other collectives in the same memory, two runs in flight,
// and other streams for start and finish: a store that comes too early or is read too soon shows.
// On GPUs the memory is NCCL's; on the host the ranks share memory, and barriers stand for flags.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lib/collective/error_feedback.hpp"
#include "lib/comm/nccl.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::world;

constexpr std::size_t kAlignment = 256;

bool over_nccl() { return test::transport() == comm::Transport::nccl; }

comm::Groups& groups(bool peer_stores) {
  return test::kept_groups(
      world().size(), {.copy_engines = over_nccl(), .peer_stores = peer_stores && over_nccl()});
}

/// Memory of processes of one host as peers' memory of a group that moves all else itself.
class HostPeers final : public comm::Communicator, public comm::PeerMemory {
 public:
  HostPeers(comm::Communicator& group, std::size_t bytes) : group_(&group), bytes_(bytes) {
    MPI_Comm_split(MPI_COMM_WORLD, 0, group.rank(), &comm_);
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm_, &own_, &window_);
    for (int peer = 0; peer < group.size(); ++peer) {
      MPI_Aint size = 0;
      int unit = 0;
      void* memory = nullptr;
      MPI_Win_shared_query(window_, peer, &size, &unit, &memory);
      of_rank_.push_back(static_cast<std::byte*>(memory));
    }
  }
  ~HostPeers() override {
    MPI_Win_free(&window_);
    MPI_Comm_free(&comm_);
  }
  [[nodiscard]] std::span<std::byte> memory() const { return {of_rank_[own_rank()], bytes_}; }

  // Functions of the group.
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  [[nodiscard]] int rank() const override { return group_->rank(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] comm::LinkClass link_to(int peer) const override { return group_->link_to(peer); }
  std::unique_ptr<comm::Work> exchange(std::span<const comm::Send> sends,
                                       std::span<const comm::Receive> receives, StreamHandle stream,
                                       comm::Bytes& sent) override {
    return group_->exchange(sends, receives, stream, sent);
  }
  std::unique_ptr<comm::Work> native_collective(const comm::NativeCall& call,
                                                StreamHandle stream) override {
    return group_->native_collective(call, stream);
  }
  comm::PeerMemory* peer_memory(std::span<const std::byte> lent) override {
    const auto all = memory();
    const bool inside =
        lent.data() >= all.data() && lent.data() + lent.size() <= all.data() + all.size();
    return inside ? this : nullptr;
  }

  // Functions of its memory.
  [[nodiscard]] std::byte* at(const std::byte* own, int peer) const override {
    return of_rank_[static_cast<std::size_t>(peer)] + (own - memory().data());
  }
  StreamHandle begin(StreamHandle caller) override {
    MPI_Barrier(comm_);
    return caller;
  }
  std::unique_ptr<comm::Work> stored(std::size_t bytes, comm::Bytes& sent) override {
    for (int peer = 0; peer < size(); ++peer) sent.add(link_to(peer), bytes);
    return std::make_unique<AllHave>(comm_);
  }

 private:
  class AllHave final : public comm::Work {
   public:
    explicit AllHave(MPI_Comm comm) : comm_(comm) {}
    void wait(StreamHandle /*stream*/) override { MPI_Barrier(comm_); }

   private:
    MPI_Comm comm_;
  };
  [[nodiscard]] std::size_t own_rank() const { return static_cast<std::size_t>(group_->rank()); }

  comm::Communicator* group_;
  std::size_t bytes_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* own_ = nullptr;
  std::vector<std::byte*> of_rank_;
};

/// Memory that collectives borrow, and the group that they run on: with peers' memory or without.
class Lent {
 public:
  Lent(std::size_t bytes, bool peer_stores) : groups_(&groups(peer_stores)) {
    if (peer_stores && !over_nccl()) {
      host_.emplace(*groups_->world, bytes);
      memory_ = host_->memory();
    } else {
      buffer_ = groups_->make_memory(bytes);
      memory_ = buffer_.span();
      registered_ = groups_->register_memory(buffer_, world().control());
    }
    poison();
  }
  [[nodiscard]] comm::Communicator& group() { return host_ ? *host_ : *groups_->world; }
  [[nodiscard]] Context context(trace::Recorder& recorder) {
    return {*groups_, group(), recorder, test::device()};
  }
  void poison() const {
    test::device().runtime->fill(memory_.data(), memory_.size(), test::device().memory,
                                 std::byte{0xA5});
  }
  [[nodiscard]] std::span<std::byte> at(std::size_t offset, std::size_t bytes) const {
    return memory_.subspan(offset, bytes);
  }
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

 private:
  comm::Groups* groups_;
  std::optional<HostPeers> host_;
  Buffer buffer_;
  std::span<std::byte> memory_;
  std::vector<std::unique_ptr<comm::RegisteredMemory>> registered_;
};

/// A reduction that is planned both ways.
struct Both {
  Both(const ReduceScatterPlan& plan_, Lent& stores, Lent& messages)
      : plan(plan_),
        by_stores(plan_reduce_scatter("1-hop", stores.context(recorder_of_stores), plan)),
        by_messages(plan_reduce_scatter("1-hop", messages.context(recorder_of_messages), plan)) {
    EXPECT_LE(by_stores->workspace_bytes(), stores.bytes());
    EXPECT_LE(by_messages->workspace_bytes(), messages.bytes());
  }
  [[nodiscard]] std::size_t input_count() const {
    return (static_cast<std::size_t>(world().size()) - 1) * plan.parts.stride + plan.parts.count;
  }

  ReduceScatterPlan plan;
  trace::Recorder recorder_of_stores;
  trace::Recorder recorder_of_messages;
  std::unique_ptr<ReduceScatter> by_stores;
  std::unique_ptr<ReduceScatter> by_messages;
};

ReduceScatterPlan plan_of(const codec::CodecSpec& codec, Dtype memory, Dtype plain,
                          std::size_t count, std::size_t gap, std::size_t depth) {
  return {.parts = {count, count + gap},
          .memory = memory,
          .plain = plain,
          .codec_first = codec,
          .depth = depth,
          .label = {"test", ""}};
}

/// Input of this rank, in the memory of the device.
test::OnDevice input(std::size_t count, Dtype dtype, std::size_t first = 0) {
  test::Poisoned values(count, dtype);
  for (std::size_t i = 0; i < count; ++i) {
    test::store(values.view, i, test::value_of(dtype, world().control().rank(), first + i));
  }
  return test::OnDevice(values);
}

void expect_same_bits(const test::Poisoned& got, const test::Poisoned& wanted,
                      const std::string& what) {
  ASSERT_EQ(got.bytes.size(), wanted.bytes.size());
  for (std::size_t at = 0; at + 4 <= got.bytes.size(); at += 4) {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::memcpy(&a, got.bytes.data() + at, 4);
    std::memcpy(&b, wanted.bytes.data() + at, 4);
    ASSERT_EQ(a, b) << what << ", element " << at / 4 << " of " << got.bytes.size() / 4 << ", rank "
                    << world().control().rank() << (a == 0xA5A5A5A5U ? ": never written" : "");
  }
}

class PeerStores : public testing::Test {
 protected:
  void SetUp() override {
    if (world().size() < 2) GTEST_SKIP() << "needs several ranks";
    if (over_nccl() && !comm::nccl_can_take_copy_engines()) {
      GTEST_SKIP() << "needs NCCL 2.28.3 and NVLink";
    }
  }
};

TEST_F(PeerStores, MemoryOfEveryPeerLiesWhereItSays) {
  Lent lent(1U << 20U, true);
  comm::Communicator& group = lent.group();
  const auto memory = lent.at(4096, 4096);
  comm::PeerMemory* const peers = group.peer_memory(memory);
  ASSERT_NE(peers, nullptr);
  EXPECT_EQ(groups(false).world->peer_memory(memory), nullptr) << "not asked for";
  const test::DeviceBytes elsewhere(64);
  EXPECT_EQ(group.peer_memory(elsewhere.span()), nullptr) << "not registered";
  const auto rank = static_cast<std::size_t>(group.rank());
  const test::DeviceBytes own(std::vector<std::byte>(16, static_cast<std::byte>(rank + 1)));
  const StreamHandle link = peers->begin(test::stream().handle());
  const Stream stream = Stream::borrow(*test::device().runtime, link);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank())
      stream.copy(peers->at(memory.data() + rank * 16, peer), own.data(), 16);
  }
  comm::Bytes sent;
  peers->stored(16, sent)->wait(test::stream().handle());
  EXPECT_EQ(sent.intra, 16U * (static_cast<unsigned>(group.size()) - 1));
  EXPECT_EQ(sent.inter, 0U);
  std::vector<std::byte> seen(16 * static_cast<std::size_t>(group.size()));
  test::stream().copy(seen.data(), memory.data(), seen.size());
  test::stream().synchronize();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto wanted = i / 16 == rank ? std::byte{0xA5} : static_cast<std::byte>(i / 16 + 1);
    ASSERT_EQ(seen[i], wanted) << "byte " << i << " on rank " << rank;
  }
}

TEST_F(PeerStores, BitsAndBytesAreThoseOfExchangedImages) {
  Lent stores(std::size_t{32} << 20U, true);
  Lent messages(std::size_t{32} << 20U, false);
  const auto ranks = static_cast<std::size_t>(world().size());
  using CountAndGap = std::pair<std::size_t, std::size_t>;
  std::vector<CountAndGap> sizes{{0, 0}, {1, 3}, {1009, 0}, {9001, 5}};
  if (over_nccl()) sizes.insert(sizes.end(), {{70'001, 5}, {131'072, 0}});
  const std::size_t most = ranks * (sizes.back().first + 5);
  for (const auto& [memory, plain] :
       {std::pair{Dtype::bf16, Dtype::bf16}, std::pair{Dtype::fp32, Dtype::bf16},
        std::pair{Dtype::fp16, Dtype::fp16}}) {
    const test::OnDevice values = input(most, memory);
    for (const codec::CodecSpec& spec : test::codecs()) {
      for (const std::size_t wanted : {1U, 2U, 4U}) {
        const std::size_t depth = test::depth_for(wanted, spec);
        if (depth != wanted) continue;
        for (const auto& [count, gap] : sizes) {
          Both both(plan_of(spec, memory, plain, count, gap, depth), stores, messages);
          const std::string what = codec::to_string(spec) + " of " + std::string(name_of(memory)) +
                                   ", count " + std::to_string(count) + ", gap " +
                                   std::to_string(gap) + ", depth " + std::to_string(depth);
          const ConstView in = ConstView(values.view).part(0, both.input_count());
          const test::OnDevice got(count, Dtype::fp32);
          const test::OnDevice wanted_sum(count, Dtype::fp32);
          const auto place = stores.at(kAlignment, both.by_stores->workspace_bytes());
          test::device().runtime->fill(place.data(), place.size(), test::device().memory,
                                       std::byte{0xA5});
          both.by_stores->start(in, got.view, place, test::stream().handle(), test::kDrawKey);
          both.by_stores->finish(test::stream().handle());
          both.by_messages->start(in, wanted_sum.view,
                                  messages.at(0, both.by_messages->workspace_bytes()),
                                  test::stream().handle(), test::kDrawKey);
          both.by_messages->finish(test::stream().handle());
          ASSERT_NO_FATAL_FAILURE(expect_same_bits(got.download(), wanted_sum.download(), what));
          EXPECT_EQ(both.by_stores->row().wire_bytes_intra,
                    both.by_messages->row().wire_bytes_intra)
              << what;
          EXPECT_EQ(both.by_stores->row().wire_bytes_intra, both.by_stores->volume().intra) << what;
          EXPECT_EQ(both.by_stores->row().wire_bytes_inter, 0U) << what;
          // The images for others never lay here: the first place of the workspace is theirs.
          const bool zero_copy =
              codec::to_string(spec) == "none" && memory == plain && gap == 0 && depth == 1;
          EXPECT_EQ(both.recorder_of_messages.counters.count("peer_store_reductions"), 0U) << what;
          if (count == 0 || zero_copy) continue;
          EXPECT_EQ(both.recorder_of_stores.counters["peer_store_reductions"], 1U) << what;
          std::vector<std::byte> first(16 * ranks);
          test::stream().copy(first.data(), place.data(), first.size());
          test::stream().synchronize();
          for (const std::byte byte : first) {
            ASSERT_EQ(byte, std::byte{0xA5}) << what << ": images were exchanged";
          }
        }
      }
    }
  }
}

/// Copies that keep a stream busy for a while.
class Delay {
 public:
  void on(const Stream& stream, std::size_t turns) const {
    for (std::size_t i = 0; i < turns; ++i) {
      stream.copy(memory_.data() + bytes(), memory_.data(), bytes());
    }
  }

 private:
  // On the host ranks come late by themselves, and memory is slower.
  static std::size_t bytes() { return std::size_t{over_nccl() ? 64U : 1U} << 20U; }
  Buffer memory_{2 * bytes(), test::device().memory};
};

TEST_F(PeerStores, ManyRunsWithoutAWaitOfTheHost) {
  const std::size_t runs_wanted = over_nccl() ? 300 : 60;
  const std::size_t longest = over_nccl() ? 300'000 : 20'000;
  const std::size_t arena_bytes = std::size_t{over_nccl() ? 64U : 8U} << 20U;
  const auto ranks = static_cast<std::size_t>(world().size());
  const auto rank = static_cast<std::size_t>(world().control().rank());
  Lent arena(arena_bytes, true);
  Lent messages(arena_bytes / 4, false);
  const test::DeviceBytes spoiled(arena_bytes);
  const Delay delay;
  const Stream beside = test::device().make_stream("test finish");

  std::vector<std::unique_ptr<Both>> plans;
  std::mt19937 random(2306);  // the same on all ranks
  for (const char* const name : {"int4:128", "int8:256", "none", "int4:128+sr", "mxfp8"}) {
    for (const std::size_t depth : {1U, 2U, 4U}) {
      const std::size_t count = 1 + random() % longest;
      plans.push_back(std::make_unique<Both>(
          plan_of(codec::parse_codec(name), Dtype::bf16, Dtype::bf16, count, random() % 3, depth),
          arena, messages));
    }
  }
  const test::OnDevice values = input(ranks * (longest + 3) + 1000, Dtype::bf16);

  struct Run {
    Both* both;
    std::size_t first;   ///< of the input
    std::size_t offset;  ///< of the workspace
    std::size_t result;  ///< of the sum
    std::uint64_t key;
  };
  std::vector<Run> runs;
  std::size_t sums = 0;
  for (std::size_t i = 0; i < runs_wanted; ++i) {
    Both& both = *plans[random() % plans.size()];
    const std::size_t room = (arena_bytes - both.by_stores->workspace_bytes()) / kAlignment;
    // Every third run has the memory of the one before it.
    const bool again = i % 3 == 2 && runs.back().both == &both;
    runs.push_back({&both, 8 * (random() % 100),
                    again ? runs.back().offset : random() % room * kAlignment, sums, random()});
    sums += (both.plan.parts.count + 63) / 64 * 64;
  }
  const test::OnDevice got(sums, Dtype::fp32);
  const test::OnDevice wanted(sums, Dtype::fp32);

  const Stream& stream = test::stream();
  comm::Communicator& group = arena.group();
  Event started;
  Event finished;
  for (std::size_t i = 0; i < runs_wanted; ++i) {
    const Run& run = runs[i];
    ReduceScatter& planned = *run.both->by_stores;
    const auto place = arena.at(run.offset, planned.workspace_bytes());
    const ConstView in = ConstView(values.view).part(run.first, run.both->input_count());
    const View sum = got.view.part(run.result, run.both->plan.parts.count);
    if (random() % 4 == 0) {
      // Another collective writes into the same memory.
      const std::size_t bytes = 1024 * (1 + random() % 8);
      const std::size_t from = 2 * ranks * bytes <= place.size() ? run.offset : 0;
      comm::Bytes sent;
      group
          .exchange_equal(arena.at(from, ranks * bytes).data(),
                          arena.at(from + ranks * bytes, ranks * bytes).data(), bytes,
                          stream.handle(), sent)
          ->wait(stream.handle());
    }
    if (random() % ranks == rank) delay.on(stream, 1 + i % 7);
    stream.copy(place.data(), spoiled.data(), place.size());
    planned.start(in, sum, place, stream.handle(), run.key);
    const bool elsewhere = i % 2 == 1;
    const Stream& end = elsewhere ? beside : stream;
    if (elsewhere) {
      stream.record(started);
      beside.wait(started);
    }
    if (random() % ranks == rank) delay.on(end, 1 + i % 5);
    planned.finish(end.handle());
    if (elsewhere) {
      beside.record(finished);
      stream.wait(finished);
    }
  }
  stream.synchronize();
  for (const Run& run : runs) {
    ReduceScatter& planned = *run.both->by_messages;
    const ConstView in = ConstView(values.view).part(run.first, run.both->input_count());
    planned.start(in, wanted.view.part(run.result, run.both->plan.parts.count),
                  messages.at(0, planned.workspace_bytes()), stream.handle(), run.key);
    planned.finish(stream.handle());
  }
  const test::Poisoned all_got = got.download();
  const test::Poisoned all_wanted = wanted.download();
  for (std::size_t i = 0; i < runs_wanted; ++i) {
    const Run& run = runs[i];
    const auto part = [&](const test::Poisoned& all) {
      test::Poisoned one(run.both->plan.parts.count, Dtype::fp32);
      std::memcpy(one.bytes.data(), all.bytes.data() + 4 * run.result, one.bytes.size());
      return one;
    };
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(
        part(all_got), part(all_wanted),
        "run " + std::to_string(i) + ", " + codec::to_string(run.both->plan.codec_first) +
            ", depth " + std::to_string(run.both->plan.depth)));
  }
}

/// Runs in place, as the sweep has them: a sum spoils nothing that is still to be encoded.
TEST_F(PeerStores, SumsMayLieOverTheInput) {
  Lent arena(std::size_t{32} << 20U, true);
  Lent messages(std::size_t{32} << 20U, false);
  const std::size_t count = over_nccl() ? 1'000'003 : 50'003;
  for (const char* const name : {"int4:128", "int8:256"}) {
    for (const std::size_t depth : {1U, 4U}) {
      Both both(plan_of(codec::parse_codec(name), Dtype::bf16, Dtype::bf16, count, 0, depth), arena,
                messages);
      for (std::uint64_t turn = 0; turn < 5; ++turn) {
        const test::OnDevice in = input(both.input_count(), Dtype::bf16, turn);
        const test::OnDevice wanted(count, Dtype::fp32);
        const StreamHandle stream = test::stream().handle();
        both.by_messages->start(in.view, wanted.view,
                                messages.at(0, both.by_messages->workspace_bytes()), stream, turn);
        both.by_messages->finish(stream);
        const View sum(in.memory.data(), count, Dtype::fp32, test::device().memory);
        both.by_stores->start(in.view, sum, arena.at(0, both.by_stores->workspace_bytes()), stream,
                              turn);
        both.by_stores->finish(stream);
        test::Poisoned got(count, Dtype::fp32);
        test::stream().copy(got.bytes.data(), in.memory.data(), got.bytes.size());
        test::stream().synchronize();
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(got, wanted.download(),
                                                 std::string(name) + ", depth " +
                                                     std::to_string(depth) + ", turn " +
                                                     std::to_string(turn)));
      }
    }
  }
}

TEST_F(PeerStores, TwoRunsInFlightOnTheirOwnStreams) {
  Lent arena(std::size_t{32} << 20U, true);
  Lent messages(std::size_t{16} << 20U, false);
  const Delay delay;
  const codec::CodecSpec spec = codec::parse_codec("int4:128");
  Both one(plan_of(spec, Dtype::bf16, Dtype::bf16, 200'003, 0, 4), arena, messages);
  Both two(plan_of(spec, Dtype::bf16, Dtype::bf16, 100'001, 0, 2), arena, messages);
  const Stream streams[] = {test::device().make_stream("test one"),
                            test::device().make_stream("test two")};
  const test::OnDevice first = input(one.input_count(), Dtype::bf16);
  const test::OnDevice second = input(two.input_count(), Dtype::bf16, 77);
  const std::size_t begin_of_two =
      (one.by_stores->workspace_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  for (std::size_t turn = 0; turn < (over_nccl() ? 20U : 4U); ++turn) {
    const test::OnDevice sums[] = {test::OnDevice(one.plan.parts.count, Dtype::fp32),
                                   test::OnDevice(two.plan.parts.count, Dtype::fp32)};
    if (turn % static_cast<std::size_t>(world().size()) ==
        static_cast<std::size_t>(world().control().rank())) {
      delay.on(streams[turn % 2], 5);
    }
    one.by_stores->start(first.view, sums[0].view, arena.at(0, one.by_stores->workspace_bytes()),
                         streams[0].handle(), turn);
    two.by_stores->start(second.view, sums[1].view,
                         arena.at(begin_of_two, two.by_stores->workspace_bytes()),
                         streams[1].handle(), turn);
    one.by_stores->finish(streams[0].handle());
    two.by_stores->finish(streams[1].handle());
    for (const Stream& stream : streams) stream.synchronize();
    const test::OnDevice wanted[] = {test::OnDevice(one.plan.parts.count, Dtype::fp32),
                                     test::OnDevice(two.plan.parts.count, Dtype::fp32)};
    Both* const both[] = {&one, &two};
    for (std::size_t i = 0; i < 2; ++i) {
      ReduceScatter& planned = *both[i]->by_messages;
      planned.start(i == 0 ? first.view : second.view, wanted[i].view,
                    messages.at(0, planned.workspace_bytes()), test::stream().handle(), turn);
      planned.finish(test::stream().handle());
      ASSERT_NO_FATAL_FAILURE(
          expect_same_bits(sums[i].download(), wanted[i].download(),
                           "turn " + std::to_string(turn) + ", run " + std::to_string(i)));
    }
  }
}

/// What encoding lost is worked out where the image lies: images are exchanged.
TEST_F(PeerStores, ErrorFeedbackHasTheBitsOfExchangedImages) {
  Lent stores(std::size_t{16} << 20U, true);
  Lent messages(std::size_t{16} << 20U, false);
  ErrorFeedback errors_of_stores({}, test::device());
  ErrorFeedback errors_of_messages({}, test::device());
  constexpr std::size_t kOwn = 50'001;
  const auto planned = [](Lent& lent, ErrorFeedback& errors, trace::Recorder& recorder) {
    ReduceScatterPlan plan =
        plan_of(codec::parse_codec("int4:128"), Dtype::bf16, Dtype::bf16, kOwn, 0, 2);
    plan.feedback = errors.planned();
    return plan_reduce_scatter("1-hop", lent.context(recorder), plan);
  };
  trace::Recorder recorders[2];
  const auto one = planned(stores, errors_of_stores, recorders[0]);
  const auto other = planned(messages, errors_of_messages, recorders[1]);
  for (std::size_t run = 0; run < 4; ++run) {
    const test::OnDevice in =
        input(static_cast<std::size_t>(world().size()) * kOwn, Dtype::bf16, 1000 * run);
    const test::OnDevice got(kOwn, Dtype::fp32);
    const test::OnDevice wanted(kOwn, Dtype::fp32);
    const StreamHandle stream = test::stream().handle();
    one->start(in.view, got.view, stores.at(0, one->workspace_bytes()), stream, run);
    one->finish(stream);
    other->start(in.view, wanted.view, messages.at(0, other->workspace_bytes()), stream, run);
    other->finish(stream);
    ASSERT_NO_FATAL_FAILURE(
        expect_same_bits(got.download(), wanted.download(), "run " + std::to_string(run)));
    for (ErrorFeedback* const errors : {&errors_of_stores, &errors_of_messages}) {
      for (const auto& hop : errors->hops()) {
        if (hop) hop->commit();
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
