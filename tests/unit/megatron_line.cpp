// ctest: name=megatron_line timeout=30 labels=sanitize link=zeropp_app_train
// Progress in Megatron's form: means over the steps since the line before, those that were skipped
// apart.
#include "apps/train/megatron_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace zeropp::train_app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

trace::StepRow row(double loss, double seconds, bool skipped = false) {
  trace::StepRow made;
  made.loss = loss;
  made.time = seconds;
  made.grad_norm = skipped ? std::numeric_limits<double>::quiet_NaN() : 1.5;
  made.learning_rate = 2.5e-4;
  made.loss_scale = 1024;
  made.skipped = skipped ? 1 : 0;
  return made;
}

TEST(MegatronLine, HasTheMeansOfTheStepsSinceTheLineBefore) {
  MegatronLine line(100, 16);
  line.add(row(4, 0.1));
  line.add(row(9, 0.3, true));
  line.add(row(3, 0.2));
  EXPECT_EQ(line.take(3),
            " iteration        3/     100 | consumed samples:           48 | elapsed time per "
            "iteration (ms): 200.0 | learning rate: 2.500000E-04 | global batch size:    16 | lm "
            "loss: 3.500000E+00 | loss scale: 1024.0 | grad norm: 1.500 | number of skipped "
            "iterations:   1 | number of nan iterations:   0 |");
  line.add(row(2, 0.05));
  EXPECT_THAT(line.take(4), AllOf(HasSubstr("lm loss: 2.000000E+00"), HasSubstr("(ms): 50.0 "),
                                  HasSubstr("skipped iterations:   0")));
}

TEST(MegatronLine, HasNoLossWhereEveryStepWasSkipped) {
  MegatronLine line(5, 2);
  line.add(row(9, 0.1, true));
  line.add(row(9, 0.1, true));
  EXPECT_THAT(line.take(2), AllOf(Not(HasSubstr("lm loss")), HasSubstr("grad norm: nan"),
                                  HasSubstr("skipped iterations:   2")));
}

}  // namespace
}  // namespace zeropp::train_app
