// ctest: name=app_gpus labels=sanitize,without-cuda
// Which GPU a rank takes, what is refused, and what is warned of, for launchers that show GPUs in
// different ways.
#include <gtest/gtest.h>

#include "lib/app/gpus.hpp"

namespace zeropp::app {
namespace {

const std::vector<std::string> kFour{"a", "b", "c", "d"};

TEST(PlaceOnGpus, GivesEveryRankOfAHostItsOwn) {
  const GpuPlacement placement =
      place_on_gpus({{"n0", kFour}, {"n0", kFour}, {"n1", {"e", "f"}}, {"n1", {"e", "f"}}});
  EXPECT_EQ(placement.index, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_TRUE(placement.every_rank);
  EXPECT_TRUE(placement.own);
  EXPECT_EQ(placement.problem, "");
  EXPECT_EQ(placement.warning, "");
}

TEST(PlaceOnGpus, TellsRanksThatShareAGpu) {
  const GpuPlacement placement = place_on_gpus({{"n0", {"a"}}, {"n0", {"a"}}, {"n0", {"a"}}});
  EXPECT_EQ(placement.index, (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(placement.every_rank);
  EXPECT_FALSE(placement.own);
  EXPECT_NE(placement.problem.find("3 ranks on n0 share 1 visible GPU"), std::string::npos);
  EXPECT_NE(placement.problem.find("--transport mpi"), std::string::npos);
}

TEST(PlaceOnGpus, TellsMoreRanksThanGpus) {
  const GpuPlacement placement =
      place_on_gpus({{"n0", {"a", "b"}}, {"n0", {"a", "b"}}, {"n0", {"a", "b"}}});
  EXPECT_EQ(placement.index, (std::vector<int>{0, 1, 0}));
  EXPECT_FALSE(placement.own);
  EXPECT_NE(placement.problem.find("3 ranks on n0 share 2 visible GPU"), std::string::npos);
}

TEST(PlaceOnGpus, WarnsWhenALauncherHidesTheOtherGpus) {
  const GpuPlacement placement = place_on_gpus({{"n0", {"a"}}, {"n0", {"b"}}});
  EXPECT_TRUE(placement.own);
  EXPECT_NE(placement.warning.find("--gpus-per-task"), std::string::npos);
  EXPECT_EQ(place_on_gpus({{"n0", {"a"}}, {"n1", {"b"}}}).warning, "") << "one rank a node";
}

TEST(PlaceOnGpus, NamesTheHostWithoutAGpu) {
  const GpuPlacement placement = place_on_gpus({{"n0", kFour}, {"n1", {}}});
  EXPECT_EQ(placement.index, (std::vector<int>{0, -1}));
  EXPECT_FALSE(placement.every_rank);
  EXPECT_FALSE(placement.own);
  EXPECT_NE(placement.problem.find("1 of 2 ranks see no GPU, the first on n1"), std::string::npos);
}

TEST(PlaceOnGpus, SaysWhyThereIsNone) {
  EXPECT_EQ(place_on_gpus({{"n0", {}}}).problem, no_gpu_reason());
}

}  // namespace
}  // namespace zeropp::app
