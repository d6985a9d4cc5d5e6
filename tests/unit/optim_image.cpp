// ctest: name=contract1_update_image timeout=120 with=support/update_image_cases.cpp
// Updates that write the wire image of the new weights, on the host.
#include <gtest/gtest.h>

#include "tests/support/update_image_cases.hpp"

namespace zeropp::optim {
namespace {

const ComputeDevice& host() {
  static const ComputeDevice device = Device::host();
  return device;
}

TEST(UpdateImage, IsThatOfAnUpdateAndAnEncodingForEveryCodecDtypeAndLength) {
  compare_every_codec_dtype_and_length(host());
}

TEST(UpdateImage, IsThatOfAnUpdateAndAnEncodingForEveryOptimizerAndKindOfMomentsInParts) {
  compare_every_optimizer_and_kind_of_moments_in_parts(host());
}

TEST(UpdateImage, IsThereForOptimizersWithTwoMoments) {
  expect_tiles_of_optimizers_with_two_moments(MemoryKind::host);
}

}  // namespace
}  // namespace zeropp::optim
