#include "lib/zero/communication/plans.hpp"

namespace zeropp::zero {

Plans::Plans(const Options& options, const std::vector<Unit>& model_units,
             const std::vector<Layer>& layers, comm::Groups& groups, comm::Groups& reduce_groups,
             trace::Recorder& recorder, const Device& device)
    : RankPlan(options, model_units, layers, groups.shape(), reduce_groups.shape()),
      weights(options, codecs, units, groups, recorder, device),
      gradients(options, codecs, units, reductions.buckets, reduce_groups, recorder, device) {}

void Plans::use(const CodecChoice& next) {
  RankPlan::use(next);
  weights.use(next.weights);
  gradients.use(next.gradients);
}

}  // namespace zeropp::zero
