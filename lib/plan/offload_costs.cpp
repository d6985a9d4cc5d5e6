#include "lib/plan/offload_costs.hpp"

#include <algorithm>
#include <utility>

#include "kernels/optim/registry.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::plan {

double moment_bytes(const optim::Options& optimizer) {
  const optim::Kept kept = optim::kept_by(optimizer);
  return static_cast<double>(kept.bytes(optim::kMomentBlock)) / optim::kMomentBlock;
}

std::vector<double> offloaded_updates(const std::vector<std::size_t>& counts,
                                      const config::TrainConfig& config, const HostRates& host) {
  const zero::Options& options = config.zero;
  const bool narrow = options.compute != Dtype::fp32;
  const auto weight = static_cast<double>(size_of(options.compute));
  const double sent_back = options.offload_param.enabled() ? 0 : weight;
  // The rule reads a gradient, its master weight and states, and writes these two. The narrow
  // weight is written too, into lines that a cache fetches first. The link uses the same memory.
  const double by_rule = sizeof(float) + 2 * (sizeof(float) + moment_bytes(config.optimizer)) +
                         (narrow ? 2 * weight : 0);
  const double by_link = sizeof(float) + sent_back;
  const double stepped = by_rule + by_link;

  const auto pieces = zero::offload_pieces(counts, options.offload_optimizer);
  const std::size_t buffers = std::min(pieces.size(), options.offload_optimizer.buffer_count);
  std::vector<double> stepped_at;  ///< by piece
  std::vector<double> back_at;
  std::vector<double> ended(counts.size(), 0);
  double arrived = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto elements = static_cast<double>(pieces[i].extent.count);
    const bool reuses = i >= buffers;  // of the piece before that had its buffer
    arrived = std::max(arrived, reuses ? stepped_at[i - buffers] : 0) +
              sizeof(float) * elements / host.link;
    const double begin =
        std::max({i > 0 ? stepped_at.back() : 0, arrived, reuses ? back_at[i - buffers] : 0});
    stepped_at.push_back(begin + stepped * elements / host.memory);
    back_at.push_back(std::max(i > 0 ? back_at.back() : 0, stepped_at.back()) +
                      sent_back * elements / host.link);
    ended[pieces[i].unit] = stepped_at.back();
  }
  if (!pieces.empty()) ended.back() = back_at.back();
  double before = 0;
  for (double& end : ended) {
    end = std::max(end, before);  // units without a piece take no time
    const double begin = std::exchange(before, end);
    end -= begin;
  }
  return ended;
}

}  // namespace zeropp::plan
