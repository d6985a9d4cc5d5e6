// Defects that a test plants, to show that the regression gate finds them. In every shipped build
// planted() is a constant, and nothing of a defect is compiled in: only the test programs
// defective_* (tests/CMakeLists.txt) compile the sources that ask with ZEROPP_TEST_DEFECTS, and
// define planted() (tests/support/planted_defects.cpp).
#pragma once

#include <cstdint>

namespace zeropp::defect {

enum class Kind : std::uint8_t {
  gradient_scaled,  ///< the sum over ranks is divided by the nodes, not by the ranks
  secondary_stale,  ///< hpZ: every second secondary shard is one weight version old
  bf16_as_fp16,     ///< the bits of the updated bf16 weights are read as fp16
  nan_planted,      ///< no defect: a NaN in one gradient of the third step, which is to be skipped
  feedback_reset,   ///< error feedback forgets its errors before every reduction, not every period
  loss_scale_late,  ///< gradients are divided by the loss scale of the next step, not of their own
  nan_dropped,      ///< a gradient that is not finite becomes zero before anyone looks
  step_padded,      ///< no defect: a step waits until a known time is over
  step_slower,      ///< a padded step lasts 10 % longer
  escape_lost,      ///< exact differences: images lack room for one escape
};

#ifdef ZEROPP_TEST_DEFECTS
bool planted(Kind kind);
#else
constexpr bool planted(Kind /*kind*/) { return false; }
#endif

}  // namespace zeropp::defect
