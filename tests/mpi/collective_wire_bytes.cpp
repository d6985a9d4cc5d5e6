// ctest: name=contract4_wire_bytes np=1,3,4,6,8 cuda=mpi,nccl labels=sanitize
// ctest: with=support/pmpi_counter.cpp
// The bytes of every collective, three times: counted where they are sent, in the closed form that
// the library predicts, in a closed form written again here from lib/trace/README.md; and what MPI
// was really given, seen from its profiling interface.
#include <gtest/gtest.h>

#include "lib/collective/all_to_all.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/pmpi_counter.hpp"

namespace zeropp::collective {
namespace {

using comm::Bytes;
using test::Cluster;

std::size_t round16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }
std::size_t pad(std::size_t n, std::size_t block) { return (n + block - 1) / block * block; }

const codec::FormatInfo& info_of(const codec::CodecSpec& spec) {
  for (const auto& info : codec::formats()) {
    if (info.name == spec.format) return info;
  }
  throw std::invalid_argument(spec.format);
}

std::size_t block_of(const codec::CodecSpec& spec) {
  const auto& info = info_of(spec);
  if (info.scale_bytes == 0) return 1;
  return spec.block == 0 ? info.default_block : spec.block;
}

/// Wire image of n values.
std::size_t wire(const codec::CodecSpec& spec, Dtype plain, std::size_t n) {
  if (spec.format == "none") return round16(n * size_of(plain));
  const auto& info = info_of(spec);
  const std::size_t padded = pad(n, block_of(spec));
  std::size_t scale_bytes = info.scale_bytes;
  // Scales take more bytes with options: with asym a minimum lies beside the scale; s32 makes both
  // twice as long.
  for (const std::string& option : spec.options) {
    if (option == "asym" || option == "s32") scale_bytes *= 2;
  }
  const std::size_t image_scale = info.scales_images && n > 0 ? 16 : 0;
  return round16(padded * info.bits / 8) + round16(padded / block_of(spec) * scale_bytes) +
         image_scale;
}

[[noreturn]] void no_closed_form(std::string_view algorithm) {
  throw std::invalid_argument("write the closed form of " + std::string(algorithm) + " here");
}

/// Bytes of rank `r`, by the closed forms of lib/trace/README.md.
struct ClosedForm {
  int n;  ///< ranks
  int g;  ///< ranks per node
  int r;  ///< this rank
  [[nodiscard]] int nodes() const { return n / g; }
  [[nodiscard]] Bytes along_ring(std::size_t w) const {
    const std::size_t bytes = static_cast<std::size_t>(n - 1) * w;
    const bool crosses = n > 1 && r / g != (r + 1) % n / g;
    return crosses ? Bytes{0, bytes} : Bytes{bytes, 0};
  }
  [[nodiscard]] Bytes to_each(std::size_t w) const {
    return {static_cast<std::size_t>(g - 1) * w, static_cast<std::size_t>(n - g) * w};
  }
  [[nodiscard]] Bytes all_gather(std::string_view algorithm, std::size_t w) const {
    if (algorithm == "flat" || algorithm == "native" || algorithm == "native-images") {
      return along_ring(w);
    }
    if (algorithm == "direct") return to_each(w);
    if (algorithm != "two-level") no_closed_form(algorithm);
    const auto k = static_cast<std::size_t>(nodes());
    return {static_cast<std::size_t>(g - 1) * k * w, (k - 1) * w};
  }
  [[nodiscard]] Bytes reduce_scatter(std::string_view algorithm, const test::CodecPair& codecs,
                                     Dtype plain, std::size_t count) const {
    const auto& [first, second] = codecs;
    const bool two = algorithm == "2-hop";
    const std::size_t block = two ? std::max(block_of(first), block_of(second)) : block_of(first);
    const std::size_t p = pad(count, block);
    if (algorithm == "1-hop" || algorithm == "ordered") return to_each(wire(first, plain, p));
    if (algorithm == "flat" || algorithm == "native") return along_ring(wire(first, plain, p));
    if (!two) no_closed_form(algorithm);
    const auto k = static_cast<std::size_t>(nodes());
    return {static_cast<std::size_t>(g - 1) * wire(first, plain, k * p),
            (k - 1) * wire(second, plain, p)};
  }
};

/// Bytes that MPI was given since the last call, by link class.
Bytes seen_by_mpi(int node_size) {
  const auto counts = test::take_pmpi_counts();
  Bytes sum;
  const int self = test::world().rank();
  for (int to = 0; to < test::world().size(); ++to) {
    const auto bytes = counts.bytes_to[static_cast<std::size_t>(to)];
    if (to == self) {
      EXPECT_EQ(bytes, 0U) << "a message to the own rank went through MPI";
    }
    (to / node_size == self / node_size ? sum.intra : sum.inter) += bytes;
  }
  EXPECT_EQ(counts.collectives, 0U) << "a counted algorithm used a route of MPI's own";
  return sum;
}

Bytes counted(const trace::CollectiveRow& row) {
  return {row.wire_bytes_intra, row.wire_bytes_inter};
}

template <class Planned>
void verify(const Planned& planned, const Bytes& closed_form, bool modelled, int node_size,
            std::uint64_t logical) {
  const auto& row = planned.row();
  EXPECT_EQ(row.modelled, modelled);
  EXPECT_EQ(row.calls, 1U);
  EXPECT_EQ(row.logical_bytes, logical);
  ASSERT_EQ(planned.volume(), closed_form);
  ASSERT_EQ(counted(row), closed_form);
  if (modelled) {
    (void)test::take_pmpi_counts();
  } else {
    // NCCL's messages do not go through MPI.
    const bool over_mpi = test::transport() == comm::Transport::mpi;
    ASSERT_EQ(seen_by_mpi(node_size), over_mpi ? closed_form : Bytes{});
  }
}

constexpr std::size_t kCounts[] = {0, 1, 7, 1009, 5003};
/// Plain dtype and pipeline depth.
constexpr std::pair<Dtype, std::size_t> kVariants[] = {{Dtype::fp32, 1}, {Dtype::bf16, 3}};

/// Long messages are split: that changes no byte.
constexpr std::size_t kLongestMessage = 1000;

TEST(Contract4, AllGather) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size, 0, kLongestMessage);
    const ClosedForm form{cluster.size(), node_size, cluster.rank()};
    const auto run = [&](const AllGatherAlgorithm& algorithm, const AllGatherPlan& plan) {
      SCOPED_TRACE(testing::Message()
                   << algorithm.name << " " << codec::to_string(plan.codec) << " count "
                   << plan.parts.count << " depth " << plan.depth << " node size " << node_size);
      cluster.recorder.collectives.clear();
      const auto planned = plan_all_gather(algorithm.name, cluster.context(), plan);
      (void)test::take_pmpi_counts();
      (void)test::run(*planned, plan, form.n, form.r, plan.memory);
      verify(*planned,
             form.all_gather(algorithm.name, wire(plan.codec, plan.memory, plan.parts.count)),
             algorithm.traits.modelled, node_size,
             static_cast<std::size_t>(form.n - 1) * plan.parts.count * size_of(plan.memory));
    };
    for (const auto* algorithm : all_gather_algorithms()) {
      for (const auto& codec : test::codecs_for(*algorithm)) {
        for (const auto& [dtype, depth] : kVariants) {
          for (const std::size_t count : kCounts) {
            ASSERT_NO_FATAL_FAILURE(
                run(*algorithm,
                    {{count, count + 3}, dtype, codec, test::depth_for(depth, codec), "test"}));
          }
        }
      }
    }
  }
}

TEST(Contract4, ReduceScatter) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size, 0, kLongestMessage);
    const ClosedForm form{cluster.size(), node_size, cluster.rank()};
    const auto run = [&](const ReduceScatterAlgorithm& algorithm, const ReduceScatterPlan& plan) {
      SCOPED_TRACE(testing::Message()
                   << algorithm.name << " " << codec::to_string(plan.codec_first) << " "
                   << codec::to_string(plan.codec_second) << " count " << plan.parts.count
                   << " depth " << plan.depth << " node size " << node_size);
      cluster.recorder.collectives.clear();
      const auto planned = plan_reduce_scatter(algorithm.name, cluster.context(), plan);
      (void)test::take_pmpi_counts();
      (void)test::run(*planned, plan, form.n, form.r);
      verify(*planned,
             form.reduce_scatter(algorithm.name, {plan.codec_first, plan.codec_second}, plan.plain,
                                 plan.parts.count),
             algorithm.traits.modelled, node_size,
             static_cast<std::size_t>(form.n - 1) * plan.parts.count * size_of(plan.plain));
    };
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      for (const auto& [first, second] : test::codec_pairs(*algorithm)) {
        for (const auto& [plain, depth] : kVariants) {
          for (const std::size_t count : kCounts) {
            ASSERT_NO_FATAL_FAILURE(run(*algorithm, {{count, count + 3},
                                                     Dtype::fp32,
                                                     plain,
                                                     first,
                                                     second,
                                                     test::depth_for(depth, first, second),
                                                     "test"}));
          }
        }
      }
    }
  }
}

TEST(Contract4, AllToAll) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size, 0, kLongestMessage);
    const ClosedForm form{cluster.size(), node_size, cluster.rank()};
    const auto n = static_cast<std::size_t>(form.n);
    for (const auto& codec : test::codecs()) {
      for (const std::size_t count : kCounts) {
        for (const std::size_t depth : {1U, 3U}) {
          cluster.recorder.collectives.clear();
          AllToAll planned(cluster.context(), {Parts::dense(count), Dtype::fp32, codec,
                                               test::depth_for(depth, codec), "test"});
          const test::DeviceBytes workspace(planned.workspace_bytes());
          const auto in = Buffer::zeros(n * count, Dtype::fp32, test::device().memory);
          const auto out = Buffer::zeros(n * count, Dtype::fp32, test::device().memory);
          (void)test::take_pmpi_counts();
          planned.start(in.view(n * count, Dtype::fp32), out.view(n * count, Dtype::fp32),
                        {workspace.span(), test::stream().handle()});
          planned.finish(test::stream().handle());
          ASSERT_NO_FATAL_FAILURE(verify(planned, form.to_each(wire(codec, Dtype::fp32, count)),
                                         /*modelled=*/false, node_size,
                                         (n - 1) * count * sizeof(float)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
