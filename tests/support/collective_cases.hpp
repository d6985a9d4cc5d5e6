// Cases of the collective tests: node sizes, registered codecs, and one run of a planned algorithm
// on generated values. A new codec or algorithm is in these lists without an edit.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/collective/collective.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::test {

inline constexpr Dtype kDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

/// Every node size that divides the world size.
inline std::vector<int> node_sizes() {
  std::vector<int> sizes;
  for (int g = 1; g <= world().size(); ++g) {
    if (world().size() % g == 0) sizes.push_back(g);
  }
  return sizes;
}

/// A topology with its groups and a trace.
struct Cluster {
  explicit Cluster(int node_size, int secondary = 0, std::size_t max_message = 1U << 30U)
      : groups(kept_groups(node_size,
                           {.secondary_size = secondary, .max_message_bytes = max_message})) {}
  [[nodiscard]] collective::Context context() {
    return {groups, *groups.world, recorder, device()};
  }
  [[nodiscard]] int size() const { return groups.world->size(); }
  [[nodiscard]] int rank() const { return groups.world->rank(); }

  comm::Groups& groups;
  trace::Recorder recorder;
};

/// Every registered codec with its default block, the defaults of weights and gradients with their
/// smallest one as well, and options that change the image and the sum.
inline std::vector<codec::CodecSpec> codecs() {
  std::vector<codec::CodecSpec> specs;
  for (const auto& info : codec::formats()) specs.push_back(codec::parse_codec(info.name));
  for (const char* const name : {"int4:32", "int8:32", "int4:64+had32", "int6:64+asym+s32",
                                 "int3:32+asym+sr", "int4:128+sr"}) {
    specs.push_back(codec::parse_codec(name));
  }
  return specs;
}

/// Codecs of codecs() that `algorithm` can carry.
template <class Algorithm>
std::vector<codec::CodecSpec> codecs_for(const Algorithm& algorithm) {
  return algorithm.traits.any_codec ? codecs() : std::vector<codec::CodecSpec>{{}};
}

/// The pipeline depth that both codecs take: 1 where an image has a scale of its own.
inline std::size_t depth_for(std::size_t depth, const codec::CodecSpec& first,
                             const codec::CodecSpec& second = {}) {
  const bool whole = codec::find_info(first.format)->scales_images ||
                     codec::find_info(second.format)->scales_images;
  return whole ? 1 : depth;
}

using CodecPair = std::pair<codec::CodecSpec, codec::CodecSpec>;

/// Codecs for both hops: every codec with itself and with the next one. One-hop algorithms ignore
/// the second.
inline std::vector<CodecPair> codec_pairs(const collective::ReduceScatterAlgorithm& algorithm) {
  const auto specs = codecs_for(algorithm);
  std::vector<CodecPair> pairs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    pairs.emplace_back(specs[i], specs[i]);
    if (algorithm.traits.hierarchical) pairs.emplace_back(specs[i], specs[(i + 1) % specs.size()]);
  }
  return pairs;
}

/// Flat algorithms do not look at nodes: one topology is enough for their values.
template <class Algorithm>
bool worth_running(const Algorithm& algorithm, int node_size) {
  return algorithm.traits.hierarchical || node_size == node_sizes().back();
}

/// The key of the draws of a run that names no other.
inline constexpr std::uint64_t kDrawKey = 20230616;

/// Runs a reduce-scatter once; returns this rank's sum. The input is element part * count + e of
/// the generated values at memory place part * stride + e, with NaN between the parts.
inline std::vector<float> run(collective::ReduceScatter& planned,
                              const collective::ReduceScatterPlan& plan, int size, int rank,
                              std::uint64_t key = kDrawKey) {
  const auto n = static_cast<std::size_t>(size);
  const auto& parts = plan.parts;
  Poisoned full((n - 1) * parts.stride + parts.count, plan.memory);
  for (std::size_t i = 0; i < full.view.count; ++i) store(full.view, i, float_of(kCanonicalNan32));
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t e = 0; e < parts.count; ++e) {
      store(full.view, p * parts.stride + e, value_of(plan.memory, rank, p * parts.count + e));
    }
  }
  const OnDevice in(full);
  const OnDevice out(parts.count, Dtype::fp32);
  const DeviceBytes workspace(planned.workspace_bytes());
  planned.start(in.view, out.view, {workspace.span(), stream().handle(), key});
  planned.finish(stream().handle());
  const Poisoned sum = out.download();
  const auto* first = sum.view.as<float>();
  return {first, first + parts.count};
}

/// Runs an all-gather once; returns the whole result buffer as the bytes of `result` (0xA5 between
/// the parts).
inline Poisoned run(collective::AllGather& planned, const collective::AllGatherPlan& plan, int size,
                    int rank, Dtype result, std::uint64_t key = kDrawKey) {
  Poisoned part(plan.parts.count, plan.memory);
  for (std::size_t e = 0; e < plan.parts.count; ++e) {
    store(part.view, e, value_of(plan.memory, rank, e));
  }
  const OnDevice in(part);
  const OnDevice full((static_cast<std::size_t>(size) - 1) * plan.parts.stride + plan.parts.count,
                      result);
  const DeviceBytes workspace(planned.workspace_bytes());
  planned.start(in.view, full.view, {workspace.span(), stream().handle(), key});
  planned.finish(stream().handle());
  return full.download();
}

}  // namespace zeropp::test
