// ctest: name=contract1_update_image_cuda timeout=300 joined=no with=support/update_image_cases.cpp
// Updates that write the wire image of the new weights, on the GPU.
#include <gtest/gtest.h>

#include "tests/support/update_image_cases.hpp"

namespace zeropp::optim {
namespace {

const ComputeDevice& gpu() {
  static const ComputeDevice device = Device::cuda(0);
  return device;
}

TEST(UpdateImageOnGpu, IsTheHostsForEveryCodecDtypeAndLength) {
  compare_every_codec_dtype_and_length(gpu());
}

TEST(UpdateImageOnGpu, IsTheHostsForEveryOptimizerAndKindOfMomentsInParts) {
  compare_every_optimizer_and_kind_of_moments_in_parts(gpu());
}

TEST(UpdateImageOnGpu, IsThereForOptimizersWithTwoMoments) {
  expect_tiles_of_optimizers_with_two_moments(MemoryKind::device);
}

}  // namespace
}  // namespace zeropp::optim
