// ctest: name=contract5_reduced_mean np=1,3,4,6 cuda=mpi,nccl timeout=120
// The reduced gradient is the true mean: the slope fitted between the fp64 mean and what every
// algorithm gives, over 2^22 normal values, at every topology. A factor cannot hide.
#include <gtest/gtest.h>

#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using test::Poisoned;

constexpr std::size_t kElements = std::size_t{1} << 22U;

double tolerance(const codec::CodecSpec& spec) {
  return codec::Codec(spec, Dtype::fp32).slope_tolerance();
}

class Contract5 : public testing::Test {
 protected:
  Contract5()
      : count_(kElements / static_cast<std::size_t>(test::world().size()) + 1),
        full_(count_ * static_cast<std::size_t>(test::world().size()), Dtype::fp32),
        mean_(count_, 0.0) {
    const int n = test::world().size();
    const int rank = test::world().rank();
    Poisoned full(full_.view.count, Dtype::fp32);
    for (std::size_t i = 0; i < full.view.count; ++i) {
      full.view.as<float>()[i] = test::value_of(Dtype::fp32, rank, i);
    }
    full_.memory.upload(full.bytes);
    for (int source = 0; source < n; ++source) {
      for (std::size_t e = 0; e < count_; ++e) {
        mean_[e] += double{test::value_of(Dtype::fp32, source,
                                          static_cast<std::size_t>(rank) * count_ + e)} /
                    n;
      }
    }
  }

  /// Slope by least squares through the origin, over all ranks.
  double slope(Cluster& cluster, std::string_view algorithm, const test::CodecPair& codecs) {
    const auto planned =
        plan_reduce_scatter(algorithm, cluster.context(),
                            {.parts = Parts::dense(count_),
                             .memory = Dtype::fp32,
                             .plain = Dtype::fp32,
                             .codec_first = codecs.first,
                             .codec_second = codecs.second,
                             .depth = test::depth_for(2, codecs.first, codecs.second),
                             .purpose = "test"});
    const test::OnDevice reduced(count_, Dtype::fp32);
    const test::DeviceBytes workspace(planned->workspace_bytes());
    planned->start(full_.view, reduced.view, {workspace.span(), test::stream().handle()});
    planned->finish(test::stream().handle());
    const Poisoned sum = reduced.download();
    double moments[2] = {0, 0};
    for (std::size_t e = 0; e < count_; ++e) {
      moments[0] += mean_[e] * sum.view.as<float>()[e] / cluster.size();
      moments[1] += mean_[e] * mean_[e];
    }
    test::world().control().all_reduce_sum(std::span<double>(moments));
    return moments[0] / moments[1];
  }

  std::size_t count_;
  test::OnDevice full_;
  std::vector<double> mean_;
};

TEST_F(Contract5, SlopeIsOne) {
  const auto sizes = test::node_sizes();
  for (const int node_size : sizes) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!test::worth_running(*algorithm, node_size)) continue;
      std::vector<test::CodecPair> pairs;
      for (const auto& info : codec::formats()) {
        const auto spec = codec::parse_codec(info.name);
        if (algorithm->traits.any_codec || info.name == "none") pairs.emplace_back(spec, spec);
      }
      if (algorithm->traits.hierarchical) {
        pairs.emplace_back(codec::parse_codec("int8"), codec::parse_codec("int4"));
        for (const char* const name : {"int4:32+wide", "int4+had32", "int6:64+asym+s32"}) {
          pairs.emplace_back(codec::parse_codec(name), codec::parse_codec(name));
        }
      }
      for (const auto& codecs : pairs) {
        EXPECT_NEAR(slope(cluster, algorithm->name, codecs), 1.0,
                    std::max(tolerance(codecs.first), tolerance(codecs.second)))
            << algorithm->name << " " << codec::to_string(codecs.first) << " "
            << codec::to_string(codecs.second) << " on " << cluster.groups.topology.describe()
            << ": where the codec has few or uneven levels, its format's slope_tolerance has to be "
               "above the largest such distance on eight ranks";
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
