// ctest: name=contract9_config_resolve_algorithms timeout=30 labels=sanitize
// Which algorithms a configuration gets on a machine, and which it may not have there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/resolving.hpp"

namespace zeropp::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConfigResolve, CopyEnginesWhereNcclHasThem) {
  Machine on = machine(1, 4);
  on.gpus = on.own_gpus = true;
  for (collective::Algorithm& algorithm : on.all_gather) {
    algorithm.traits.to_everyone = algorithm.name == "direct" || algorithm.traits.hierarchical;
  }
  for (collective::Algorithm& algorithm : on.reduce_scatter)
    algorithm.traits.to_everyone = algorithm.traits.feedback;
  const auto choice = [&](const std::string& own, const std::string& zero = "") {
    const TrainConfig c =
        resolved(R"({"zero_optimization": {)" + zero + R"(}, "zeropp": {)" + own + "}}", on);
    return std::string(enum_name(*c.copy_engines)) + " " + c.zero.all_gather_algorithm + " " +
           c.zero.secondary_gather_algorithm + " " + c.zero.reduce_scatter_algorithm;
  };
  const auto why = [&](const std::string& own) {
    return refusal(R"({"zeropp": {)" + own + "}}", on);
  };
  const std::string quantized = R"("stage": 3, "zero_quantized_weights": true)";
  EXPECT_EQ(choice(""), "off native native native") << "this NCCL has none";
  EXPECT_THAT(why(R"("copy_engines": "on")"), HasSubstr("NCCL 2.28.3"));
  on.copy_engines = true;
  EXPECT_EQ(choice(""), "on direct direct 1-hop");
  EXPECT_EQ(choice(R"("copy_engines": "off")"), "off native native native");
  EXPECT_EQ(choice(R"("pipeline_depth": 2)", quantized), "on direct direct flat");
  EXPECT_EQ(choice(R"("pipeline_depth": 2)"), "off flat direct flat") << "chunks are not in place";
  EXPECT_EQ(choice(R"("transport": "mpi")"), "off flat flat flat");
  EXPECT_THAT(why(R"("copy_engines": "on", "transport": "mpi")"), HasSubstr("needs the transport"));
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "flat",
                     "reduce_scatter_algorithm": "native")"),
              AllOf(HasSubstr("no effect"), HasSubstr("flat and native")));
  EXPECT_EQ(choice("", R"("stage": 1)"), "off native direct native") << "gradients that stay";
  EXPECT_EQ(choice("", R"("stage": 2)"), "on native direct 1-hop") << "weights that stay";
  EXPECT_EQ(choice("", R"("stage": 2, "zero_quantized_weights": true)"), "on direct direct 1-hop");
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "direct", "pipeline_depth": 4,
                     "reduce_scatter_algorithm": "native")"),
              HasSubstr("pipeline_depth 4"));
  on.node_count = 2;
  on.ranks_per_node = 2;
  EXPECT_EQ(choice(""), "on two-level direct 2-hop");
  EXPECT_EQ(choice("", R"("stage": 3, "zero_hpz_partition_size": 4)"), "on two-level native 2-hop")
      << "an hpZ group of two nodes";
  EXPECT_THAT(why(R"("copy_engines": "on", "all_gather_algorithm": "direct",
                     "reduce_scatter_algorithm": "flat")"),
              HasSubstr("on 2 nodes"));
  on.ranks_per_node = 1;
  on.node_count = 4;
  EXPECT_THAT(why(R"("copy_engines": "on")"), HasSubstr("nodes of several ranks"));
  on.ranks_per_node = 0;  // nodes of unequal size
  on.node_count = 2;
  EXPECT_EQ(choice(""), "off native native flat");
}

TEST(ConfigResolve, RailsHaveLanesOverSockets) {
  Machine on = machine(2, 2);
  on.gpus = on.own_gpus = true;
  const auto lanes = [&](const std::string& own) {
    return resolved(R"({"zeropp": {)" + own + "}}", on).rail_lanes;
  };
  EXPECT_EQ(lanes(""), 4U);
  EXPECT_EQ(lanes(R"("rail_lanes": 2)"), 2U);
  EXPECT_EQ(lanes(R"("transport": "mpi")"), 1U);
  const std::string flat = R"("all_gather_algorithm": "flat", "reduce_scatter_algorithm": "flat")";
  EXPECT_EQ(lanes(flat), 1U);
  const std::string differences =
      R"({"zero_optimization": {"zero_quantized_weights": true, "zero_hpz_partition_size": "auto",
          "stage3_param_persistence_threshold": 10},
          "zeropp": {"weight_differences": true, "rail_lanes": 2, )";
  EXPECT_EQ(resolved(differences + flat + "}}", on).rail_lanes, 2U)
      << "weight differences travel along the rails";
  EXPECT_THAT(refusal(R"({"zeropp": {"rail_lanes": 2, )" + flat + "}}", on),
              AllOf(HasSubstr("zeropp.rail_lanes 2"), HasSubstr("no effect")));
  on.rdma = true;
  EXPECT_EQ(lanes(""), 1U);
  EXPECT_EQ(lanes(R"("rail_lanes": 3)"), 3U);
  on = machine(2, 2);
  EXPECT_EQ(lanes(""), 1U) << "no GPU";
  EXPECT_THAT(refusal(R"({"zeropp": {"rail_lanes": 2}})", on), HasSubstr("no effect"));
}

TEST(ConfigResolve, NodesOfOneRankSendOnLanesWhatZeroppSends) {
  Machine on = machine(3, 1);
  on.gpus = on.own_gpus = true;
  const auto choice = [&](const std::string& own, const std::string& zero = "") {
    const TrainConfig c =
        resolved(R"({"zero_optimization": {)" + zero + R"(}, "zeropp": {)" + own + "}}", on);
    return std::to_string(c.rail_lanes) + " " + c.zero.all_gather_algorithm + " " +
           c.zero.reduce_scatter_algorithm;
  };
  const std::string quantized =
      R"("zero_quantized_weights": true, "zero_quantized_gradients": true)";
  const std::string native =
      R"("all_gather_algorithm": "native-images", "reduce_scatter_algorithm": "native")";
  EXPECT_EQ(choice(""), "8 direct 1-hop");
  EXPECT_EQ(choice("", quantized), "8 direct 2-hop");
  EXPECT_EQ(choice(R"("deterministic": true)"), "8 direct ordered");
  EXPECT_EQ(choice(R"("rail_lanes": 2)"), "2 direct 1-hop");
  EXPECT_EQ(choice(R"("rail_lanes": 1)"), "1 native flat");
  EXPECT_EQ(choice(native), "1 native-images native");
  EXPECT_EQ(choice(R"("all_gather_algorithm": "native")"), "8 native 1-hop");
  EXPECT_EQ(choice(R"("transport": "mpi")"), "1 flat flat");
  EXPECT_THAT(refusal(R"({"zeropp": {"rail_lanes": 2, )" + native + "}}", on),
              AllOf(HasSubstr("zeropp.rail_lanes 2"), HasSubstr("no effect")));
  on.rdma = true;
  EXPECT_EQ(choice(""), "1 native flat");
  EXPECT_EQ(choice("", quantized), "1 direct 2-hop");
  EXPECT_EQ(choice(R"("rail_lanes": 2)"), "2 direct 1-hop");
}

TEST(ConfigResolve, AutoTakesTheVendorsCollectivesWhereTheyAreTheBaseline) {
  const auto chosen = [](const std::string& text, int nodes) {
    Machine on = machine(nodes, 4 / nodes);
    on.gpus = on.own_gpus = true;
    const auto zero = resolved(text, on).zero;
    return zero.all_gather_algorithm + " " + zero.reduce_scatter_algorithm;
  };
  const auto secondary = [](const std::string& own) {
    Machine on = machine(1, 4);
    on.gpus = on.own_gpus = true;
    return resolved(
               R"({"zero_optimization": {"zero_hpz_partition_size": 2}, "zeropp": {)" + own + "}}",
               on)
        .zero.secondary_gather_algorithm;
  };
  EXPECT_EQ(secondary(""), "native");
  EXPECT_EQ(secondary(R"("deterministic": true)"), "flat");
  EXPECT_EQ(chosen("{}", 1), "native native");
  EXPECT_EQ(chosen("{}", 2), "two-level 2-hop");
  EXPECT_EQ(chosen(R"({"zeropp": {"deterministic": true}})", 1), "flat ordered");
  EXPECT_EQ(chosen(R"({"zeropp": {"pipeline_depth": 3}})", 1), "flat flat");
  EXPECT_EQ(chosen(R"({"zeropp": {"transport": "mpi", "backend": "cuda"}})", 1), "flat flat");
  EXPECT_EQ(chosen(R"({"zero_optimization": {"zero_quantized_weights": true,
                       "zero_quantized_gradients": true}})",
                   1),
            "direct 2-hop");
  const std::string qwz = R"({"zero_optimization": {"zero_quantized_weights": true},
                              "zeropp": {"pipeline_depth": 4)";
  EXPECT_EQ(chosen(qwz + "}}", 1), "native-images flat");
  EXPECT_EQ(chosen(qwz + "}}", 2), "two-level 2-hop");
  EXPECT_EQ(chosen(qwz + R"(, "deterministic": true}})", 1), "flat ordered");
  EXPECT_EQ(chosen(qwz + R"(, "transport": "mpi", "backend": "cuda"}})", 1), "flat flat");
}

TEST(ConfigResolve, AutoFollowsTheTopology) {
  const auto algorithms = [](const std::string& text, const Machine& on) {
    const auto zero = resolved(text, on).zero;
    return zero.all_gather_algorithm + " " + zero.reduce_scatter_algorithm;
  };
  EXPECT_EQ(algorithms("{}", machine(2, 2)), "two-level 2-hop");
  EXPECT_EQ(algorithms("{}", machine(1, 4)), "flat flat");
  EXPECT_EQ(algorithms("{}", machine(4, 1)), "flat flat");
  EXPECT_EQ(algorithms("{}", machine(2, 0, 3)), "flat flat");
  EXPECT_EQ(algorithms(R"({"zeropp":{"deterministic":true}})", machine(2, 2)), "two-level ordered");
  const std::string qgz = R"({"zero_optimization":{"zero_quantized_gradients":true}})";
  EXPECT_EQ(algorithms(qgz, machine(2, 2)), "two-level 2-hop");
  EXPECT_EQ(algorithms(qgz, machine(1, 1)), "flat 2-hop");
}

TEST(ConfigResolve, AlgorithmsAreThoseOfAShardGroup) {
  const auto of = [](const std::string& size) {
    return resolved(grouped(size), machine(4, 2)).zero;
  };
  EXPECT_EQ(of("2").all_gather_algorithm, "flat");
  EXPECT_EQ(of("2").reduce_scatter_algorithm, "flat");
  EXPECT_EQ(of("4").all_gather_algorithm, "two-level");
  EXPECT_EQ(of("4").reduce_scatter_algorithm, "2-hop");
}

TEST(ConfigResolve, SumsOverShardGroupsAreTheHopAcrossNodes) {
  const std::string codecs =
      R"("reduce_scatter_algorithm":"1-hop","gradient_codec_intra":"int8:64",)"
      R"("gradient_codec_inter":"int4:64","error_feedback":{"hops":"both"})";
  const auto config =
      resolved(grouped("2", R"("zero_quantized_gradients":true)", codecs), machine(2, 2));
  EXPECT_EQ(codec::to_string(config.zero.gradient_codec_inter), "int4:64");
  EXPECT_EQ(config.zero.error_feedback.hops, zero::FeedbackHops::both);
}

TEST(ConfigResolve, HierarchiesNeedEqualNodes) {
  const Machine unequal = machine(2, 0, 3);
  EXPECT_THAT(refusal(R"({"zeropp":{"all_gather_algorithm":"two-level"}})", unequal),
              AllOf(HasSubstr("two-level"), HasSubstr("--node-size")));
  EXPECT_THAT(refusal(R"({"zeropp":{"reduce_scatter_algorithm":"2-hop"}})", unequal),
              AllOf(HasSubstr("2-hop"), HasSubstr("--node-size")));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_gradients":true}})", unequal),
              AllOf(HasSubstr("--node-size"), HasSubstr("1-hop")));
}

TEST(ConfigResolve, CodecsNeedAnAlgorithmThatCarriesThem) {
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_gradients":true},
                          "zeropp":{"reduce_scatter_algorithm":"ordered"}})",
                      machine(2, 2)),
              HasSubstr("cannot carry"));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"zero_quantized_weights":true},
                          "zeropp":{"all_gather_algorithm":"plain"}})",
                      machine(2, 2)),
              HasSubstr("cannot carry zeropp.weight_codec"));
  EXPECT_THAT(refusal(R"({"zero_optimization":{"stage":2,"zero_quantized_weights":true},
                          "zeropp":{"weight_differences":true,"all_gather_algorithm":"plain"}})",
                      machine(2, 2)),
              HasSubstr("cannot carry zeropp.weight_difference_codec"));
  EXPECT_THAT(refusal(R"({"zeropp":{"deterministic":true,"reduce_scatter_algorithm":"native"}})",
                      machine(2, 2)),
              HasSubstr("choose ordered"));
  EXPECT_THAT(refusal(R"({"zeropp":{"deterministic":true,"all_gather_algorithm":"unstable"}})",
                      machine(2, 2)),
              HasSubstr("choose flat"));
}

TEST(ConfigResolve, APipelineNeedsAnAlgorithmThatHasOne) {
  const auto text = [](const std::string& gather, const std::string& reduce, int depth, int hpz) {
    return R"({"zero_optimization":{"zero_hpz_partition_size":)" + std::to_string(hpz) +
           R"(},"zeropp":{"all_gather_algorithm":")" + gather +
           R"(","reduce_scatter_algorithm":")" + reduce + R"(","pipeline_depth":)" +
           std::to_string(depth) + "}}";
  };
  EXPECT_THAT(refusal(text("native", "native", 2, 1), machine(2, 2)),
              AllOf(HasSubstr("zeropp.pipeline_depth 2"), HasSubstr("no effect")));
  EXPECT_NO_THROW((void)resolved(text("native", "native", 1, 1), machine(2, 2)));
  EXPECT_NO_THROW((void)resolved(text("flat", "native", 2, 1), machine(2, 2)));
  EXPECT_NO_THROW((void)resolved(text("native", "flat", 2, 1), machine(2, 2)));
  EXPECT_THAT(refusal(text("native", "native", 2, 2), machine(2, 2)), HasSubstr("no effect"));
}

TEST(ConfigResolve, OneHopHasOneCodec) {
  const auto text = [](const std::string& more) {
    return R"({"zero_optimization":{"zero_quantized_gradients":true},
               "zeropp":{"reduce_scatter_algorithm":"1-hop","gradient_codec_intra":"int8:64")" +
           more + "}}";
  };
  EXPECT_EQ(resolved(text(""), machine(2, 2)).zero.gradient_codec_inter,
            codec::parse_codec("int8:64"));
  EXPECT_NO_THROW((void)resolved(text(R"(,"gradient_codec_inter":"int8:64")"), machine(2, 2)));
  EXPECT_THAT(refusal(text(R"(,"gradient_codec_inter":"int4:64")"), machine(2, 2)),
              HasSubstr("one hop"));
}

TEST(ConfigResolve, ErrorFeedbackIsInTheHopsThatThereAre) {
  const auto text = [](const std::string& hops, const std::string& algorithm) {
    return R"({"zero_optimization":{"zero_quantized_gradients":true},
               "zeropp":{"reduce_scatter_algorithm":")" +
           algorithm + R"(","error_feedback":{"hops":")" + hops + "\"}}}";
  };
  const auto hops = [&](const char* asked, const char* algorithm, const Machine& on) {
    return enum_name(resolved(text(asked, algorithm), on).zero.error_feedback.hops);
  };
  EXPECT_EQ(hops("both", "2-hop", machine(2, 2)), "both");
  EXPECT_EQ(hops("intra", "2-hop", machine(2, 2)), "intra");
  EXPECT_EQ(hops("inter", "2-hop", machine(2, 2)), "inter");
  EXPECT_EQ(hops("both", "2-hop", machine(1, 4)), "intra");
  EXPECT_EQ(hops("both", "2-hop", machine(4, 1)), "inter");
  EXPECT_EQ(hops("both", "1-hop", machine(2, 2)), "intra");
  EXPECT_EQ(hops("both", "1-hop", machine(4, 1)), "intra");
  EXPECT_EQ(hops("none", "2-hop", machine(2, 2)), "none");
  for (const auto& [asked, algorithm, on] :
       {std::tuple{"inter", "2-hop", machine(1, 4)}, std::tuple{"intra", "2-hop", machine(4, 1)},
        std::tuple{"inter", "1-hop", machine(2, 2)}}) {
    EXPECT_THAT(refusal(text(asked, algorithm), on),
                AllOf(HasSubstr("zeropp.error_feedback.hops"), HasSubstr("no effect")));
  }
  Machine on = machine(2, 2);
  on.reduce_scatter = {{"ring"}};
  EXPECT_THAT(refusal(text("both", "ring"), on),
              AllOf(HasSubstr("zeropp.error_feedback.hops both"), HasSubstr("choose 2-hop")));
}

}  // namespace
}  // namespace zeropp::config
