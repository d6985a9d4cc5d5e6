// ctest: name=plan_cluster labels=sanitize
// Cluster files: what a wrong one is told, and calibration from measurements that were made up.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/plan/calibrate.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan {
namespace {

using nlohmann::json;

json valid() {
  return json::parse(R"({
    "name": "two nodes", "source": "made up", "nodes": 2, "gpus_per_node": 4,
    "gpu": {"name": "G", "peak_tflops": 100, "memory_gib": 80, "memory_gb_per_s": 2000,
            "step_share": 0.9, "layer_gap_us": 7,
            "products": [{"rows": 8, "in": 16, "out": 32, "forward_tflops": 50,
                          "backward_tflops": 40}],
            "attention": [{"sequence": 64, "head_size": 8, "forward_tflops": 20,
                           "backward_tflops": 10}]},
    "node_links": {"latency_us": 5, "gb_per_s": 200, "most_gb_per_s": 300, "gpu_share": 0.1,
                   "copies_gb_per_s": 350, "copies_gpu_share": 0.02},
    "rails": {"links_per_node": 4, "hop_latency_us": 3, "gpu_share": 0.05,
              "lanes": [{"lanes": 1, "latency_us": 9, "gb_per_s": 2},
                        {"lanes": 4, "latency_us": 8, "gb_per_s": 5,
                         "sizes": [{"mib": 1, "gb_per_s": 3}, {"mib": 4, "gb_per_s": 4}]}]},
    "engine": {"overlap": 0.5, "max_live_parameters": 1e9, "bytes_per_parameter": 90,
               "reductions_at_a_time": 1}})");
}

std::string refusal(const json& object) {
  try {
    parse_cluster(object.dump(), "c.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

TEST(PlanCluster, ReadsWhatItWrites) {
  const Cluster cluster = parse_cluster(valid().dump(), "c.json");
  EXPECT_EQ(cluster.gpus_per_node, 4U);
  EXPECT_DOUBLE_EQ(cluster.gpu.products.front().backward, 40e12);
  EXPECT_DOUBLE_EQ(cluster.gpu.layer_gap, 7e-6);
  EXPECT_DOUBLE_EQ(cluster.node_links.most, 300e9);
  EXPECT_DOUBLE_EQ(cluster.rails.lanes.back().latency, 8e-6);
  EXPECT_DOUBLE_EQ(cluster.engine.overlap, 0.5);
  EXPECT_EQ(cluster.engine.reductions_at_a_time, 1U);
  EXPECT_FALSE(cluster.host.known());
  const json written = to_json(cluster);
  EXPECT_EQ(to_json(parse_cluster(written.dump(), "again")), written);
}

TEST(PlanCluster, ReadsAHostWhereThereIsOne) {
  json object = valid();
  object["host"] = {{"link_gb_per_s", 50}, {"memory_gb_per_s", 300}};
  const Cluster cluster = parse_cluster(object.dump(), "c.json");
  EXPECT_TRUE(cluster.host.known());
  EXPECT_DOUBLE_EQ(cluster.host.link_rate, 50e9);
  EXPECT_DOUBLE_EQ(cluster.host.pageable_rate, 50e9);
  EXPECT_DOUBLE_EQ(parse_cluster(to_json(cluster).dump(), "again").host.memory_rate, 300e9);
  object["host"]["pageable_gb_per_s"] = 6;
  const Host host = parse_cluster(object.dump(), "c.json").host;
  EXPECT_DOUBLE_EQ(host.pageable_rate, 6e9);
  EXPECT_DOUBLE_EQ(host.link_rate, 50e9);
  object["host"].erase("memory_gb_per_s");
  EXPECT_NE(refusal(object).find("c.json: host.memory_gb_per_s is missing"), std::string::npos);
}

TEST(PlanCluster, SaysWhatIsNoClusterFile) {
  for (const json& other : {json::object(), json{{"name", "a"}, {"config", {{"gpus", 8}}}},
                            json{{"gpu", "a GPU's name"}, {"step_seconds", {1.0}}}}) {
    EXPECT_EQ(
        refusal(other),
        "c.json is no cluster file: it has none of the sections gpu, node_links, rails, engine: "
        "name a file of inputs/clusters, or what zpp_plan calibrate wrote");
  }
  json incomplete = valid();
  incomplete.erase("name");
  EXPECT_NE(refusal(incomplete).find("c.json: name is missing"), std::string::npos);
}

TEST(PlanCluster, FindsTheLanesInUse) {
  const Rails rails = parse_cluster(valid().dump(), "c.json").rails;
  EXPECT_DOUBLE_EQ(rails.with(1).rate, 2e9);
  EXPECT_DOUBLE_EQ(rails.with(3).rate, 2e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate, 5e9);
  EXPECT_DOUBLE_EQ(rails.with(64).rate, 5e9);
}

TEST(PlanCluster, FindsTheRateOfAMessage) {
  constexpr double kMib = 1 << 20;
  const Rails rails = parse_cluster(valid().dump(), "c.json").rails;
  EXPECT_DOUBLE_EQ(rails.with(1).rate_of(1), 2e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate_of(0), 3e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate_of(kMib), 3e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate_of(2 * kMib), 3.5e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate_of(4 * kMib), 4e9);
  EXPECT_DOUBLE_EQ(rails.with(4).rate_of(4.01 * kMib), 5e9);
}

TEST(PlanCluster, SaysWhatIsWrongAndWhere) {
  json object = valid();
  object["rails"]["lanes"][1]["gb_per_s"] = -1;
  EXPECT_EQ(refusal(object), "c.json: rails.lanes.1.gb_per_s must be a number from 1e-06 to 1e+07");
  object = valid();
  object["gpu"]["attention"][0]["backward_tflops"] = 101;
  EXPECT_EQ(refusal(object),
            "c.json: gpu.attention.0.backward_tflops must be a number from 1e-06 to 100");
  object = valid();
  object["gpu"].erase("peak_tflops");
  EXPECT_NE(refusal(object).find("c.json: gpu.peak_tflops is missing"), std::string::npos);
  object = valid();
  object["gpu"]["peak_tflop"] = 1;
  EXPECT_EQ(refusal(object), "c.json: unknown key gpu.peak_tflop (nearest known: gpu.peak_tflops)");
  object = valid();
  object["nodes"] = 1.5;
  EXPECT_EQ(refusal(object), "c.json: nodes must be a whole number");
  object = valid();
  object["engine"]["reductions_at_a_time"] = 3;
  EXPECT_EQ(refusal(object), "c.json: engine.reductions_at_a_time must be a number from 1 to 2");
  object = valid();
  object["name"] = 3;
  EXPECT_EQ(refusal(object), "c.json: name must be text");
  object = valid();
  object["gpu"]["products"] = json::array();
  EXPECT_EQ(refusal(object), "c.json: gpu.products must be a list of 1 to 4096 objects");
  object = valid();
  object["rails"]["lanes"][1]["lanes"] = 1;
  EXPECT_EQ(refusal(object), "c.json: rails.lanes.1.lanes must be more than in the row before");
  object = valid();
  object["rails"]["lanes"][1]["sizes"][1]["mib"] = 1;
  EXPECT_EQ(refusal(object),
            "c.json: rails.lanes.1.sizes.1.mib must be more than in the row before");
  object = valid();
  object["node_links"]["most_gb_per_s"] = 100;
  EXPECT_NE(refusal(object).find("node_links.most_gb_per_s must be a number from 200"),
            std::string::npos);
  object = valid();
  object["engine"] = 1;
  EXPECT_EQ(refusal(object), "c.json: engine must be an object");
  EXPECT_THROW(parse_cluster("{", "c.json"), Error);
}

TEST(PlanCalibrate, FindsLatencyAndRate) {
  std::vector<TransferTime> times;
  for (const double bytes : {1e6, 4e6, 16e6, 64e6}) times.push_back({bytes, 3e-5 + bytes / 2e9});
  const LinkFit fit = fit_link(times);
  EXPECT_NEAR(fit.latency, 3e-5, 1e-12);
  EXPECT_NEAR(fit.rate, 2e9, 1e-3);
  // A latency below zero is none.
  const LinkFit origin = fit_link({{1e6, 0.4e-3}, {4e6, 2e-3}});
  EXPECT_EQ(origin.latency, 0);
  EXPECT_GT(origin.rate, 1e9);
  EXPECT_THROW(fit_link({{1e6, 1e-3}}), std::invalid_argument);
  EXPECT_THROW(fit_link({{1e6, 1e-3}, {1e6, 1e-3}}), std::invalid_argument);
  EXPECT_THROW(fit_link({{1e6, 2e-3}, {2e6, 1e-3}}), std::invalid_argument);
}

TEST(PlanCalibrate, TakesRatesOfKernels) {
  Cluster cluster = parse_cluster(valid().dump(), "c.json");
  const auto row = [](const char* kernel, const char* shape, double gflops) {
    return json{{"kernel", kernel},
                {"shape", shape},
                {"dtype", "bf16"},
                {"flops", gflops},
                {"verdict", "VALID"}};
  };
  json kernels = {{"schema", "zeropp-kernels"},
                  {"device", "H"},
                  {"ceilings", {{{"name", "copy"}, {"rate", 4e12}}}},
                  {"rows",
                   {row("linear_gelu_forward", "512x64x256", 700e3),
                    row("linear_backward", "512x64x256", 600e3),
                    row("linear_forward", "512x64x1000", 1e3),  // no backward
                    row("attention_forward", "1x128x8x32", 300e3),
                    row("attention_backward", "1x128x8x32", 200e3)}}};
  // These products are in fp32, which 16-bit training does not run. 16-bit training does not run.
  for (const char* kernel : {"linear_forward", "linear_backward"}) {
    kernels["rows"].push_back(row(kernel, "512x64x256", 50e3));
    kernels["rows"].back()["dtype"] = "fp32";
  }
  calibrate(cluster, kernels, "k.json");
  ASSERT_EQ(cluster.gpu.products.size(), 1U);
  EXPECT_EQ(cluster.gpu.products[0].out, 256U);
  EXPECT_DOUBLE_EQ(cluster.gpu.products[0].forward, 700e12);
  EXPECT_DOUBLE_EQ(cluster.gpu.products[0].backward, 600e12);
  EXPECT_EQ(cluster.gpu.attention[0].sequence, 128U);
  EXPECT_EQ(cluster.gpu.attention[0].head_size, 32U);
  EXPECT_DOUBLE_EQ(cluster.gpu.memory_rate, 4e12);
  EXPECT_EQ(cluster.source, "made up; k.json");
  // Another shape of the same GPU, and one again.
  kernels["rows"] = {
      row("linear_forward", "512x32x32", 90e3), row("linear_backward", "512x32x32", 80e3),
      row("attention_forward", "1x128x8x32", 400e3), row("attention_backward", "1x128x8x32", 1e3)};
  calibrate(cluster, kernels, "more.json");
  ASSERT_EQ(cluster.gpu.products.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster.gpu.products[0].forward, 700e12);
  EXPECT_DOUBLE_EQ(cluster.gpu.products[1].forward, 90e12);
  ASSERT_EQ(cluster.gpu.attention.size(), 1U);
  EXPECT_DOUBLE_EQ(cluster.gpu.attention[0].forward, 400e12);
}

TEST(PlanCalibrate, TakesRatesOfLinks) {
  Cluster cluster = parse_cluster(valid().dump(), "c.json");
  json sweep = {{"schema", "zeropp-sweep"}, {"provenance", {{"world_size", 4}, {"node_count", 1}}}};
  json rails = {{"node_size", 2}, {"ranks", 6}, {"rows", json::array()}};
  for (const double size : {8e6, 32e6, 128e6}) {
    const double us = 12 + size * 3 / 4 / 300e9 * 1e6;
    sweep["results"].push_back({{"collective", "all_gather"},
                                {"algorithm", "native"},
                                {"codec", "none"},
                                {"size", size},
                                {"out_of_place", {{"p50", us}, {"verdict", "VALID"}}}});
    for (const int lanes : {1, 4}) {
      const double seconds = 1e-4 + 2 * size / (lanes * 1e9);
      rails["rows"].push_back({{"group", "rail"},
                               {"lanes", lanes},
                               {"peers", 2},
                               {"bytes_a_peer", size},
                               {"seconds", {seconds, seconds, 9.0}}});
    }
  }
  calibrate(cluster, sweep, "s.json");
  calibrate(cluster, rails, "r.json");
  EXPECT_NEAR(cluster.node_links.latency, 12e-6, 1e-10);
  EXPECT_NEAR(cluster.node_links.rate, 300e9, 1);
  EXPECT_EQ(cluster.nodes, 3U);
  EXPECT_EQ(cluster.gpus_per_node, 2U);
  ASSERT_EQ(cluster.rails.lanes.size(), 2U);
  EXPECT_NEAR(cluster.rails.lanes[1].rate, 4e9, 1);
  EXPECT_NEAR(cluster.rails.lanes[1].latency, 1e-4, 1e-10);
  ASSERT_EQ(cluster.rails.lanes[1].sizes.size(), 3U);
  EXPECT_NEAR(cluster.rails.lanes[1].sizes[0].bytes, 16e6, 1e-3);
  EXPECT_NEAR(cluster.rails.lanes[1].sizes[0].rate, 4e9, 1);
  // And the file that is made of it can be read.
  EXPECT_EQ(parse_cluster(to_json(cluster).dump(), "made").rails.lanes.size(), 2U);
}

TEST(PlanCalibrate, LeavesOutWhatSamplesTakeBesideTransfers) {
  Cluster cluster = parse_cluster(valid().dump(), "c.json");
  constexpr double kSampling = 2e-4;
  json rails = {{"node_size", 2}, {"ranks", 4}, {"rows", json::array()}};
  const auto add = [&](const char* group, double bytes, double seconds) {
    rails["rows"].push_back({{"group", group},
                             {"lanes", 1},
                             {"peers", 1},
                             {"bytes_a_peer", bytes},
                             {"seconds", {kSampling + seconds}}});
  };
  const NodeLinks& links = cluster.node_links;
  for (const double bytes : {64e6, 1e5, 16e6}) {  // the shortest message inside a node counts
    add("node", bytes, links.latency + bytes / links.rate + (bytes > 1e6 ? 1 : 0));
  }
  // A rate of 2 GB/s, and of 1 GB/s for the largest message.
  for (const double bytes : {64e6, 1e6, 4e6, 16e6})
    add("rail", bytes, 5e-5 + bytes / (bytes > 2e7 ? 1e9 : 2e9));
  calibrate(cluster, rails, "r.json");
  ASSERT_EQ(cluster.rails.lanes.size(), 1U);
  const LaneRate& lane = cluster.rails.lanes.front();
  EXPECT_NEAR(lane.latency, 5e-5, 1e-9);
  EXPECT_NEAR(lane.rate, 1e9, 1e4);
  EXPECT_NEAR(lane.rate_of(16e6), 2e9, 1e4);
  EXPECT_NEAR(lane.rate_of(32e6), 1.5e9, 1e4);
}

TEST(PlanCalibrate, TakesTheVendorsRingFromASweepOfSeveralNodes) {
  Cluster cluster = parse_cluster(valid().dump(), "c.json");
  json sweep = {{"schema", "zeropp-sweep"}, {"provenance", {{"world_size", 4}, {"node_count", 2}}}};
  for (const double size : {8e6, 32e6}) {
    const double us = 100 + size * 3 / 4 / 12e9 * 1e6;
    sweep["results"].push_back({{"collective", "all_gather"},
                                {"algorithm", "native"},
                                {"codec", "none"},
                                {"size", size},
                                {"out_of_place", {{"p50", us}, {"verdict", "VALID"}}}});
  }
  const NodeLinks before = cluster.node_links;
  calibrate(cluster, sweep, "s.json");
  EXPECT_NEAR(cluster.rails.ring_rate, 12e9, 1);
  EXPECT_EQ(cluster.node_links.rate, before.rate);
}

TEST(PlanCalibrate, RefusesWhatItDoesNotKnow) {
  Cluster cluster = parse_cluster(valid().dump(), "c.json");
  for (const char* text :
       {"{}", R"({"schema": "zeropp-trace"})", R"({"schema": "zeropp-kernels", "rows": []})",
        R"({"schema": "zeropp-kernels", "rows": [{"kernel": 3}]})",
        R"({"node_size": 2, "rows": 1})", R"({"node_size": 0, "ranks": 4, "rows": []})",
        R"({"schema": "zeropp-sweep", "provenance": {"world_size": 1, "node_count": 1}})"}) {
    EXPECT_THROW(calibrate(cluster, json::parse(text), "m.json"), Error) << text;
  }
}

}  // namespace
}  // namespace zeropp::plan
