// A rank's plan with what runs it: the collectives of weights and gradients. Owns plans, and with
// error feedback its buffers; does not communicate.
#pragma once

#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/communication/gradient_reduce.hpp"
#include "lib/zero/communication/weight_gather.hpp"
#include "lib/zero/plan/rank_plan.hpp"

namespace zeropp::zero {

struct Plans : RankPlan {
  /// `options` are resolved (no "auto"). Weights are gathered in `groups`, gradients reduced in
  /// `reduce_groups`, which both outlive this, as `recorder` does.
  Plans(const Options& options, const std::vector<Unit>& model_units,
        const std::vector<Layer>& layers, comm::Groups& groups, comm::Groups& reduce_groups,
        trace::Recorder& recorder, const Device& device);

  WeightGather weights;
  GradientReduce gradients;

  /// Puts the codecs of `next` into force: what is gathered and reduced from now on, and its
  /// volumes.
  void use(const CodecChoice& next);
};

}  // namespace zeropp::zero
