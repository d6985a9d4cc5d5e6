#include "lib/zero/gradient_errors.hpp"

#include "lib/collective/collective.hpp"

namespace zeropp::zero {

namespace {

constexpr const char* kHopNames[] = {"intra", "inter"};

/// Calls body(hop index, errors) for every hop that has errors.
template <class Body>
void for_each_hop(const collective::ErrorFeedback& feedback, const Body& body) {
  for (std::size_t hop = 0; hop < feedback.hops().size(); ++hop) {
    if (feedback.hops().at(hop)) body(hop, *feedback.hops().at(hop));
  }
}

}  // namespace

GradientErrors::GradientErrors(const Options& options, const std::vector<Bucket>& buckets,
                               const comm::Topology& topology, const Device& device)
    : reset_period_(options.error_feedback.reset_period) {
  const ErrorFeedbackOptions& asked = options.error_feedback;
  if (asked.hops == "none" || !options.quantized_gradients) return;
  const collective::FeedbackOptions feedback{.beta = static_cast<float>(asked.beta),
                                             .intra = asked.hops != "inter",
                                             .inter = asked.hops != "intra",
                                             .storage = asked.dtype == "int8"
                                                            ? collective::ErrorStorage::int8
                                                            : collective::ErrorStorage::fp32};
  // The first hop sends all parts, P elements; the second, where there is one, those of the own
  // rail, P / G. Nodes of one rank have the second only.
  const bool across =
      collective::find_reduce_scatter(options.reduce_scatter_algorithm).hierarchical &&
      topology.node_count > 1;
  const bool inside = !across || topology.ranks_per_node > 1;
  for (const Bucket& bucket : buckets) {
    feedback_.push_back(std::make_unique<collective::ErrorFeedback>(feedback, device));
    if (inside && feedback.intra) {
      predicted_[0] += collective::error_bytes(
          feedback.storage, static_cast<std::size_t>(topology.world_size), bucket.count());
    }
    if (across && feedback.inter) {
      predicted_[1] += collective::error_bytes(
          feedback.storage, static_cast<std::size_t>(topology.node_count), bucket.count());
    }
  }
}

void GradientErrors::commit(std::uint64_t steps, StreamHandle stream) {
  for (const auto& bucket : feedback_) {
    for_each_hop(*bucket, [](std::size_t, collective::HopErrors& errors) { errors.commit(); });
  }
  if (reset_period_ > 0 && steps % reset_period_ == 0) forget(stream);
}

void GradientErrors::forget(StreamHandle stream) const {
  for (const auto& bucket : feedback_) {
    for_each_hop(*bucket,
                 [&](std::size_t, const collective::HopErrors& errors) { errors.reset(stream); });
  }
}

void GradientErrors::discard() {
  for (const auto& bucket : feedback_) {
    for_each_hop(*bucket, [](std::size_t, collective::HopErrors& errors) { errors.discard(); });
  }
}

void GradientErrors::rescale(float factor, StreamHandle stream) const {
  for (const auto& bucket : feedback_) {
    for_each_hop(*bucket, [&](std::size_t, const collective::HopErrors& errors) {
      errors.rescale(factor, stream);
    });
  }
}

std::vector<NamedState> GradientErrors::state() const {
  std::vector<NamedState> named;
  for (std::size_t b = 0; b < feedback_.size(); ++b) {
    for_each_hop(*feedback_[b], [&](std::size_t hop, const collective::HopErrors& errors) {
      named.push_back({std::string("error_feedback.") + kHopNames[hop] + "." + std::to_string(b),
                       errors.elements(), errors.kept()});
    });
  }
  return named;
}

std::vector<MemoryReport> GradientErrors::memory() const {
  std::size_t held[2] = {0, 0};
  for (const auto& bucket : feedback_) {
    for_each_hop(*bucket, [&](std::size_t hop, const collective::HopErrors& errors) {
      held[hop] += errors.bytes();
    });
  }
  std::vector<MemoryReport> reports;
  for (const std::size_t hop : {std::size_t{0}, std::size_t{1}}) {
    if (predicted_[hop] == 0 && held[hop] == 0) continue;
    reports.push_back(
        {std::string("error_feedback_") + kHopNames[hop], predicted_[hop], held[hop]});
  }
  return reports;
}

}  // namespace zeropp::zero
