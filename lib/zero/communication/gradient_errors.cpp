#include "lib/zero/communication/gradient_errors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/collective/collective.hpp"

namespace zeropp::zero {

namespace {

/// Of arrays in checkpoints.
constexpr std::array<const char*, 4> kArrays{"intra", "inter", "across.reduce", "across.gather"};
/// Of parts of the memory: both arrays across groups are one.
constexpr std::array<const char*, 3> kParts{"intra", "inter", "across"};

std::size_t part_of(std::size_t array) { return std::min(array, kParts.size() - 1); }

}  // namespace

template <class Body>
void GradientErrors::for_each(const Body& body) const {
  const auto hops = [&](const ByBucket& buckets, std::size_t first) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      for (std::size_t hop = 0; hop < 2; ++hop) {
        const auto& errors = buckets[b]->hops().at(hop);
        if (errors) body(first == 0 ? hop : first, b, *errors);
      }
    }
  };
  hops(feedback_, 0);
  hops(replica_reduce_, 2);
  hops(replica_gather_, 3);
}

GradientErrors::GradientErrors(const Options& options, const std::vector<Bucket>& buckets,
                               const comm::Topology& topology, std::size_t replicas,
                               const Device& device)
    : reset_period_(options.error_feedback.reset_period) {
  const ErrorFeedbackOptions& asked = options.error_feedback;
  if (asked.hops == FeedbackHops::none || !options.quantized_gradients) return;
  const collective::FeedbackOptions feedback{.beta = static_cast<float>(asked.beta),
                                             .intra = asked.hops != FeedbackHops::inter,
                                             .inter = asked.hops != FeedbackHops::intra,
                                             .storage = asked.dtype == FeedbackStorage::int8
                                                            ? collective::ErrorStorage::int8
                                                            : collective::ErrorStorage::fp32};
  // The first hop sends all parts, P elements; the second, where there is one, those of the own
  // rail, P / G. Nodes of one rank have the second only.
  const bool second =
      collective::find_reduce_scatter(options.reduce_scatter_algorithm).traits.hierarchical &&
      topology.node_count > 1;
  const bool first = !second || topology.ranks_per_node > 1;
  const auto make = [&] { return std::make_unique<collective::ErrorFeedback>(feedback, device); };
  for (const Bucket& bucket : buckets) {
    feedback_.push_back(make());
    if (first && feedback.intra) {
      predicted_[0] += collective::error_bytes(
          feedback.storage, static_cast<std::size_t>(topology.world_size), bucket.count());
    }
    if (second && feedback.inter) {
      predicted_[1] += collective::error_bytes(
          feedback.storage, static_cast<std::size_t>(topology.node_count), bucket.count());
    }
    if (replicas == 1 || !feedback.inter) continue;
    replica_reduce_.push_back(make());
    replica_gather_.push_back(make());
    const std::size_t part = replica_part(bucket, replicas, options.compute);
    predicted_[2] += collective::error_bytes(feedback.storage, replicas, part) +
                     collective::error_bytes(feedback.storage, 1, part);
  }
}

void GradientErrors::commit(std::uint64_t steps, StreamHandle stream) {
  for_each([](std::size_t, std::size_t, collective::HopErrors& errors) { errors.commit(); });
  if (reset_period_ > 0 && steps % reset_period_ == 0) forget(stream);
}

void GradientErrors::forget(StreamHandle stream) const {
  for_each(
      [&](std::size_t, std::size_t, const collective::HopErrors& errors) { errors.reset(stream); });
}

void GradientErrors::discard() {
  for_each([](std::size_t, std::size_t, collective::HopErrors& errors) { errors.discard(); });
}

void GradientErrors::rescale(float factor, StreamHandle stream) const {
  for_each([&](std::size_t, std::size_t, const collective::HopErrors& errors) {
    errors.rescale(factor, stream);
  });
}

std::vector<NamedState> GradientErrors::state() const {
  std::vector<NamedState> named;
  for_each([&](std::size_t array, std::size_t bucket, const collective::HopErrors& errors) {
    named.push_back({fmt::format("error_feedback.{}.{}", kArrays.at(array), bucket),
                     errors.elements(), errors.kept()});
  });
  return named;
}

std::vector<MemoryReport> GradientErrors::memory() const {
  std::array<std::size_t, kParts.size()> held{};
  for_each([&](std::size_t array, std::size_t, const collective::HopErrors& errors) {
    held.at(part_of(array)) += errors.bytes();
  });
  std::vector<MemoryReport> reports;
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    if (predicted_.at(part) == 0 && held.at(part) == 0) continue;
    reports.push_back(
        {fmt::format("error_feedback_{}", kParts.at(part)), predicted_.at(part), held.at(part)});
  }
  return reports;
}

}  // namespace zeropp::zero
