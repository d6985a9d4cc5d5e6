#include "lib/zero/communication/gradient_errors.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace zeropp::zero {

namespace {

/// An array of errors: its name in checkpoints, and the part of feedback_memory() that it is in.
struct Array {
  const char* name;
  const char* part;
};
/// The arrays in the order in which for_each() numbers them.
constexpr std::array<Array, 4> kArrays{{{"intra", kErrorsIntra},
                                        {"inter", kErrorsInter},
                                        {"across.reduce", kErrorsAcross},
                                        {"across.gather", kErrorsAcross}}};

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
                               const comm::JobShape& job, const Device& device)
    : reset_period_(options.error_feedback.reset_period),
      predicted_(feedback_memory(options, buckets, job)) {
  const auto feedback = feedback_of(options);
  if (!feedback) return;
  const auto make = [&] { return std::make_unique<collective::ErrorFeedback>(*feedback, device); };
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    feedback_.push_back(make());
    if (job.shard_groups() == 1 || !feedback->inter) continue;
    replica_reduce_.push_back(make());
    replica_gather_.push_back(make());
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
    named.push_back({fmt::format("error_feedback.{}.{}", kArrays.at(array).name, bucket),
                     errors.elements(), errors.kept()});
  });
  return named;
}

std::vector<MemoryReport> GradientErrors::memory() const {
  HeldMemory held;
  for (const Array& array : kArrays) held[array.part] = 0;
  for_each([&](std::size_t array, std::size_t, const collective::HopErrors& errors) {
    held[kArrays.at(array).part] += errors.bytes();
  });
  std::vector<MemoryReport> parts = compare_memory(predicted_, std::move(held));
  std::erase_if(parts,
                [](const MemoryReport& part) { return part.predicted == 0 && part.actual == 0; });
  return parts;
}

}  // namespace zeropp::zero
