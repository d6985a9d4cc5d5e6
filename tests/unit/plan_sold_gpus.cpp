// ctest: name=plan_sold_gpus labels=sanitize
// Clusters of GPUs as they are sold: within what is sold, the same after they were written and
// read, and for H200 near what was measured of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/plan/sold_gpus.hpp"

namespace zeropp::plan {
namespace {

Cluster sold(const std::string& gpu, double node_gbit = 400, std::size_t node_links = 1) {
  return sold_cluster(
      {.gpu = gpu, .gpus_per_node = 8, .node_gbit = node_gbit, .node_links = node_links});
}

TEST(PlanSoldGpus, TheTableIsSortedAndReachesLessThanIsSold) {
  EXPECT_TRUE(std::ranges::is_sorted(sold_gpus(), {}, &SoldGpu::name));
  for (const SoldGpu& gpu : sold_gpus()) {
    SCOPED_TRACE(gpu.name);
    const Cluster cluster = sold(std::string(gpu.name));
    EXPECT_DOUBLE_EQ(cluster.gpu.peak, gpu.tflops * 1e12);
    EXPECT_LT(cluster.gpu.products.front().forward, cluster.gpu.peak);
    EXPECT_LT(cluster.gpu.products.front().backward, cluster.gpu.products.front().forward);
    EXPECT_LT(cluster.gpu.memory_rate, gpu.memory_gb_per_s * 1e9);
    EXPECT_LT(cluster.node_links.rate, cluster.node_links.most);
    EXPECT_LT(cluster.node_links.most, gpu.node_gb_per_s * 1e9);
    EXPECT_LT(cluster.host.link_rate, gpu.host_gb_per_s * 1e9);
    EXPECT_NE(cluster.source.find("none of them measured"), std::string::npos);
    const nlohmann::json written = to_json(cluster);
    EXPECT_EQ(to_json(parse_cluster(written.dump(), "written")), written);
  }
}

TEST(PlanSoldGpus, LinksShareWhatLeavesANode) {
  const Cluster one = sold("h100", 400);
  const Cluster eight = sold("h100", 400, 8);
  EXPECT_DOUBLE_EQ(one.rails.with(1).rate, 0.92 * 50e9);
  EXPECT_DOUBLE_EQ(eight.rails.with(1).rate * 8, one.rails.with(1).rate);
  EXPECT_DOUBLE_EQ(eight.rails.links_per_node, 8);
}

TEST(PlanSoldGpus, OneNodeNeedsNoLinks) {
  const Cluster one = sold("h100", 0);
  EXPECT_EQ(one.nodes, 1U);
  EXPECT_NE(one.name.find("as sold, one node"), std::string::npos) << one.name;
  EXPECT_DOUBLE_EQ(one.node_links.rate, sold("h100").node_links.rate);
  EXPECT_GT(one.rails.with(1).rate, 0);
  const nlohmann::json written = to_json(one);
  EXPECT_EQ(to_json(parse_cluster(written.dump(), "written")), written);
}

TEST(PlanSoldGpus, AnUnknownOneIsRefused) {
  try {
    (void)sold("h1000");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("\"h1000\": choose a100, "), std::string::npos);
  }
}

}  // namespace
}  // namespace zeropp::plan
