// ctest: name=comm_registered_memory np=4 timeout=60 labels=sanitize
// A registration of memory that fails on one rank, while all groups register it in turn: every rank
// ends with that rank's message, and none waits for it in the next group. Registrations are
// collective over a group, as registering a window is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lib/comm/watchdog.hpp"
#include "tests/support/engine_case.hpp"

namespace zeropp::comm {
namespace {

using test::world;

/// A group whose ranks wait for each other in register_memory(), which fails on one of them then.
class Offering final : public Communicator {
 public:
  Offering(std::unique_ptr<Communicator> group, bool refuses)
      : Communicator(group->member()), group_(std::move(group)), refuses_(refuses) {}
  std::unique_ptr<Communicator> take() { return std::move(group_); }

  std::unique_ptr<RegisteredMemory> register_memory(std::span<std::byte> /*memory*/) override {
    wait_for_all();
    if (refuses_) throw Error(ExitCode::environment, "GPU 1 is not let in: choose another");
    return std::make_unique<RegisteredMemory>();
  }

  std::unique_ptr<Work> exchange(std::span<const Send>, std::span<const Receive>, StreamHandle,
                                 Bytes&) override {
    throw std::logic_error("only memory is registered here");
  }
  std::unique_ptr<Work> native_collective(const NativeCall&, StreamHandle) override {
    throw std::logic_error("only memory is registered here");
  }

 private:
  void wait_for_all() {
    std::vector<std::byte> pieces(static_cast<std::size_t>(size()));
    Bytes sent;
    group_->all_gather_in_place(pieces.data(), 1, 1, {}, sent)->wait({});
  }

  std::unique_ptr<Communicator> group_;
  bool refuses_;
};

/// Groups of an engine that register their memory, while it lives.
class Registered {
 public:
  /// `refuses`: in the first group.
  Registered(Groups& groups, bool refuses) : groups_(groups) {
    groups_.copy_engines = true;
    for (auto* group : all()) {
      *group = std::make_unique<Offering>(std::move(*group), refuses && group == &groups_.world);
    }
  }
  ~Registered() {
    groups_.copy_engines = false;
    for (auto* group : all()) *group = static_cast<Offering&>(**group).take();
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::array<std::unique_ptr<Communicator>*, 3> all() {
    return {&groups_.world, &groups_.node, &groups_.rail};
  }
  Groups& groups_;
};

test::EngineCase make_engine() {
  return {zero::Options{}, world().size() / 2,
          [](const model::Context& context) { return test::make_tiny_gpt(context); }};
}

TEST(Registration, ARankThatCannotEndsAllWithItsMessage) {
  Watchdog::set_deadline(Seconds{10});
  test::EngineCase made = make_engine();
  const int failing = world().size() - 1;
  {
    const Registered registered(made.groups(), world().control().rank() == failing);
    try {
      made.engine().prepare();
      FAIL() << "no rank may continue";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_EQ(error.reporter(), failing);
      EXPECT_STREQ(error.what(), "GPU 1 is not let in: choose another");
    }
  }
  world().control().barrier();  // all ranks are at one place
}

TEST(Registration, AllRanksGoOnWhereAllCan) {
  test::EngineCase made = make_engine();
  {
    const Registered registered(made.groups(), false);
    EXPECT_NO_THROW(made.engine().prepare());
  }
  made.step(0);
}

}  // namespace
}  // namespace zeropp::comm
