// ctest: name=app_frame np=1,3 timeout=60 labels=sanitize
// Agreement of ranks: on a configuration, on a step that one rank fails, on a signal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>
#include <utility>

#include "lib/app/agreement.hpp"
#include "lib/app/app.hpp"
#include "lib/app/interrupt.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Agreement, EqualConfigurationsPass) {
  EXPECT_NO_THROW(agree_on_configuration(test::world().control(), R"({"configuration":{"a":1}})"));
}

TEST(Agreement, AllRanksLearnWhichOneDiffers) {
  auto& control = test::world().control();
  if (control.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const bool other = control.rank() == control.size() - 1;
  try {
    agree_on_configuration(control, other ? R"({"configuration":{"a":{"b":2}}})"
                                          : R"({"configuration":{"a":{"b":1},"c":3}})");
    FAIL() << "no rank may continue";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.reporter(), 0);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a.b (2, rank 0 has 1)"), HasSubstr("c (not set, rank 0 has 3)"),
                      HasSubstr("rank " + std::to_string(control.size() - 1))));
  }
}

TEST(Agreement, AStepThatFailsOnOneRankFailsOnAll) {
  auto& world = test::world();
  const std::vector<config::Option> none;
  const Context context(world, none, "test", "test");
  EXPECT_NO_THROW(context.agree_on([] {}));
  const int failing = world.control().size() - 1;
  const auto expect = [&](const std::function<void()>& thrower, ExitCode code, const char* part) {
    try {
      context.agree_on([&] {
        if (world.control().rank() == failing) thrower();
      });
      FAIL() << "no rank may continue";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(error.reporter(), failing);
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  expect([] { throw Error(ExitCode::io, "no such file"); }, ExitCode::io, "no such file");
  expect([] { throw std::bad_alloc(); }, ExitCode::environment, "out of memory");
  expect([] { throw std::runtime_error("odd"); }, ExitCode::environment, "odd");
}

/// Ranks that send at other places than the ranks that fail would wait for those forever.
TEST(Agreement, AStepThatSendsIsRefused) {
  auto& world = test::world();
  const std::vector<config::Option> none;
  const Context context(world, none, "test", "test");
  EXPECT_THROW(context.agree_on([&] { world.control().barrier(); }), std::logic_error);
}

TEST(Interrupt, ASignalOnOneRankIsAgreedByAll) {
  auto& control = test::world().control();
  const bool signalled = control.rank() == control.size() - 1;
  EXPECT_EQ(interrupted(), 0);
  EXPECT_EQ(agreed_interrupt(control), 0);
  // SIGINT counts most and SIGUSR1 least, whatever order they come in.
  for (const auto& [signal, counts] :
       {std::pair{SIGUSR1, SIGUSR1}, std::pair{SIGTERM, SIGTERM}, std::pair{SIGUSR1, SIGTERM},
        std::pair{SIGINT, SIGINT}, std::pair{SIGTERM, SIGINT}, std::pair{SIGUSR1, SIGINT}}) {
    install_interrupt_handlers();  // again: the second of a kind ends the process
    if (signalled) std::raise(signal);
    EXPECT_EQ(interrupted(), signalled ? counts : 0);
    EXPECT_EQ(agreed_interrupt(control), counts);
  }
}

TEST(Interrupt, TheCodeSaysWhetherToStartAgain) {
  for (const auto& [signal, code, name] : {std::tuple{SIGINT, ExitCode::interrupted, "SIGINT"},
                                           std::tuple{SIGTERM, ExitCode::requeue, "SIGTERM"},
                                           std::tuple{SIGUSR1, ExitCode::requeue, "SIGUSR1"}}) {
    const comm::AgreedError error = nothing_kept(signal, "step 2 of 9");
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr("step 2 of 9")));
  }
}

}  // namespace
}  // namespace zeropp::app
