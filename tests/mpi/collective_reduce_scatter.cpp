// ctest: name=contract6_reduce_scatter np=1,3,4,6 cuda=mpi,nccl timeout=120 labels=sanitize
// Every reduce-scatter algorithm with every codec, at every node size, for odd counts and every
// dtype: within the codecs' bounds of the fp64 sum, and bitwise what its order of operations gives,
// whatever the strides and the pipeline depth.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/collective_cases.hpp"
#include "tests/support/collective_oracle.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using test::Estimate;

/// The vendor's sum: any order, rounded to the plain dtype before and after every addition.
double vendor_bound(Dtype dtype, int ranks, int rank, std::size_t count, std::size_t element) {
  const double unit = dtype == Dtype::fp32 ? 0x1p-23 : dtype == Dtype::bf16 ? 0x1p-8 : 0x1p-10;
  double magnitude = 0;
  for (int source = 0; source < ranks; ++source) {
    magnitude +=
        std::abs(test::value_of(dtype, source, static_cast<std::size_t>(rank) * count + element));
  }
  return unit * (ranks + 1) * magnitude;
}

void verify(Cluster& cluster, const ReduceScatterAlgorithm& algorithm,
            const test::CodecPair& codecs, Dtype memory, Dtype plain, std::size_t count) {
  const int n = cluster.size();
  const int rank = cluster.rank();
  const test::Reduction reduction{
      algorithm.name, cluster.groups.topology, memory, plain, count, codecs.first, codecs.second};
  const Estimate expected = reduction.sum(rank);
  const auto exact = reduction.exact(rank);
  // Rotated values are summed before they are rotated back, and the reference sums decoded ones:
  // other roundings, which a second hop may make a whole step of. The bound holds all the same.
  const auto rotates = [](const codec::CodecSpec& spec) {
    return std::ranges::find(spec.options, "had32") != spec.options.end();
  };
  // The reference does not know the slices of other nodes either. In the first of two hops they
  // share an image with its slice, and the scale of that image is not the scale of the slice.
  const bool shared = codec::find_info(codecs.first.format)->scales_images &&
                      algorithm.traits.hierarchical && cluster.groups.topology.node_count > 1;
  const bool same_bits =
      !algorithm.traits.modelled && !rotates(codecs.first) && !rotates(codecs.second) && !shared;
  for (const auto& [parts, wanted_depth] : {std::pair{Parts::dense(count), std::size_t{1}},
                                            std::pair{Parts{count, count + 5}, std::size_t{3}}}) {
    const std::size_t depth = test::depth_for(wanted_depth, codecs.first, codecs.second);
    const ReduceScatterPlan plan{parts, memory, plain, codecs.first, codecs.second, depth, "test"};
    const auto planned = plan_reduce_scatter(algorithm.name, cluster.context(), plan);
    const auto sum = test::run(*planned, plan, n, rank);
    SCOPED_TRACE(testing::Message()
                 << algorithm.name << " " << codec::to_string(codecs.first) << " "
                 << codec::to_string(codecs.second) << " " << name_of(memory) << " "
                 << name_of(plain) << " count " << count << " stride " << parts.stride << " depth "
                 << depth << " on " << cluster.groups.topology.describe() << " rank " << rank);
    for (std::size_t e = 0; e < count; ++e) {
      const double bound =
          algorithm.traits.modelled ? vendor_bound(plain, n, rank, count, e) : expected.bound[e];
      ASSERT_LE(std::abs(sum[e] - exact[e]), bound) << "element " << e;
      if (!same_bits) continue;
      ASSERT_EQ(bits_of(sum[e]), bits_of(expected.values[e])) << "element " << e;
    }
  }
}

TEST(Contract6, ReduceScatterOfEveryAlgorithmCodecDtypeAndCount) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!test::worth_running(*algorithm, node_size)) continue;
      for (const auto& codecs : test::codec_pairs(*algorithm)) {
        for (const Dtype dtype : test::kDtypes) {
          for (const std::size_t count : {0U, 1U, 7U, 1009U}) {
            ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codecs, dtype, dtype, count));
          }
        }
      }
    }
  }
}

TEST(Contract6, PlainDtypeOtherThanThatOfMemory) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!test::worth_running(*algorithm, node_size)) continue;
      for (const auto& codecs : test::codec_pairs(*algorithm)) {
        for (const Dtype plain : {Dtype::bf16, Dtype::fp16}) {
          ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codecs, Dtype::fp32, plain, 1009));
        }
      }
    }
  }
}

TEST(Contract6, ReduceScatterOfOddVocabulary) {
  const auto sizes = test::node_sizes();
  Cluster cluster(sizes[sizes.size() / 2]);
  const codec::CodecSpec int8{"int8", 256, {}};
  const codec::CodecSpec int4{"int4", 128, {}};
  for (const auto* algorithm : reduce_scatter_algorithms()) {
    const codec::CodecSpec none;
    const auto codecs = algorithm->traits.any_codec ? std::pair{int8, int4} : std::pair{none, none};
    const auto n = static_cast<std::size_t>(cluster.size());
    ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codecs, Dtype::bf16, Dtype::bf16,
                                   (std::size_t{50257} * 3 + n - 1) / n));
  }
}

}  // namespace
}  // namespace zeropp::collective
