// ctest: name=config_algorithm_table timeout=30 labels=sanitize
// What `auto` takes by a sweep's times: interpolation, the fastest of those that can run as asked,
// and every refusal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/config/algorithm_table.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/model/registry.hpp"

namespace zeropp::config {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Table : public testing::Test {
 protected:
  Table() : path_(testing::TempDir() + "/table.json") {
    sweep_ = {{"schema", "zeropp-sweep"},
              {"provenance", {{"world_size", 4}, {"ranks_per_node", 2}}},
              {"config",
               {{"backend", "host"},
                {"transport", "mpi"},
                {"graph", 0},
                {"aggregated_iterations", 1},
                {"pipeline_depth", 1}}},
              {"results", json::array()}};
  }
  ~Table() override { std::filesystem::remove(path_); }

  void row(const char* collective, const char* codec, const char* algorithm, std::size_t bytes,
           double microseconds, const char* group = "world", const char* verdict = "VALID") {
    sweep_["results"].push_back(
        {{"collective", collective},
         {"codec", codec},
         {"algorithm", algorithm},
         {"group", group},
         {"type", "float"},
         {"size", bytes},
         {"out_of_place", {{"p50", microseconds}, {"nwrong", 0}, {"verdict", verdict}}}});
  }
  const std::string& written() {
    std::ofstream(path_) << sweep_.dump();
    return path_;
  }

  /// `parameters`: of a unit, 4 bytes each.
  TrainConfig resolved(const std::string& zero, const std::string& own = "",
                       std::size_t parameters = 1024) {
    const Machine on{
        .world_size = 4,
        .node_count = 2,
        .ranks_per_node = 2,
        .gpu_problem = "no GPU here",
        .all_gather = {{"direct"},
                       {"flat"},
                       {"native", {.any_codec = false, .one_chunk = true}},
                       {"native-images"},
                       {"two-level", {.hierarchical = true}}},
        .reduce_scatter = {{"1-hop"},
                           {"2-hop", {.hierarchical = true}},
                           {"native",
                            {.any_codec = false, .deterministic = false, .one_chunk = true}},
                           {"ordered", {.any_codec = false}}},
        .typical_unit = model::typical_unit,
        .check_model = model::validate,
        .check_data = data::validate};
    TrainConfig config;
    auto options_of_it = options(config);
    read_text(fmt::format(R"({{"zero_optimization":{{{}}},"zeropp":{{"algorithm_table":"{}",
                          "model":{{"name":"quadratic","hidden_size":{}}}{}}}}})",
                          zero, written(), parameters, own),
              "x.json", options_of_it);
    resolve(config, options_of_it, on);
    effective_ = canonical_json(options_of_it);
    return config;
  }
  std::string refusal(const std::string& zero, const std::string& own = "") {
    try {
      (void)resolved(zero, own);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    ADD_FAILURE() << "was accepted";
    return "";
  }
  /// Rows of a plain run, by which flat and ordered are the fastest.
  void plain() {
    row("all_gather", "none", "two-level", 4096, 30);
    row("all_gather", "none", "flat", 4096, 20);
    row("all_gather", "none", "direct", 4096, 25);
    row("all_gather", "none", "native", 4096, 22);
    row("reduce_scatter", "none", "2-hop", 4096, 9);
    row("reduce_scatter", "none", "ordered", 4096, 8);
  }

  std::string path_;
  json sweep_;
  std::string effective_;
};

TEST_F(Table, TimesBetweenSizes) {
  row("all_gather", "none", "flat", 1024, 10);
  row("all_gather", "none", "flat", 3072, 20);
  row("all_gather", "none", "flat", 2048, 1, "node");
  row("all_gather", "none", "flat", 2048, 2, "world", "INVALID: 3 wrong values");
  const AlgorithmTable table = AlgorithmTable::read(written());
  const auto at = [&](std::size_t bytes) {
    return table.time({"all_gather", "none", "world", "float", bytes}, "flat");
  };
  EXPECT_DOUBLE_EQ(at(1024), 10);
  EXPECT_DOUBLE_EQ(at(2048), 15);
  EXPECT_DOUBLE_EQ(at(3072), 20);
  EXPECT_DOUBLE_EQ(at(6144), 40);
  EXPECT_DOUBLE_EQ(at(8), 10);
  EXPECT_TRUE(std::isnan(table.time({"all_gather", "none", "world", "half", 1024}, "flat")));
  EXPECT_TRUE(std::isnan(table.time({"all_gather", "none", "world", "float", 1024}, "direct")));
}

TEST_F(Table, AutoTakesTheFastest) {
  plain();
  const TrainConfig config = resolved("");
  EXPECT_EQ(config.zero.all_gather_algorithm, "flat");
  EXPECT_EQ(config.zero.reduce_scatter_algorithm, "ordered");
  // What was chosen is what is in effect, and gives the same run without the table.
  EXPECT_THAT(effective_, testing::Not(HasSubstr("algorithm_table")));
  EXPECT_THAT(effective_, HasSubstr(R"("all_gather_algorithm":"flat")"));
}

TEST_F(Table, SizeDecides) {
  plain();
  row("all_gather", "none", "flat", 1024, 1);
  row("all_gather", "none", "two-level", 65536, 40);
  row("all_gather", "none", "flat", 65536, 400);
  EXPECT_EQ(resolved("").zero.all_gather_algorithm, "flat");
  EXPECT_EQ(resolved("", "", 16384).zero.all_gather_algorithm, "two-level");
}

TEST_F(Table, TakesOnlyWhatCanRunAsAsked) {
  plain();
  row("all_gather", "int8:256", "two-level", 4096, 7);
  row("all_gather", "int8:256", "direct", 4096, 6);
  row("reduce_scatter", "int4:128", "1-hop", 4096, 5);
  row("reduce_scatter", "int4:128", "2-hop", 4096, 6);
  row("all_gather", "none", "direct", 4096, 3, "node");
  row("all_gather", "none", "native", 4096, 2, "node");
  const char* const both = R"("zero_quantized_weights":true,"zero_quantized_gradients":true)";
  const TrainConfig quantized = resolved(both);
  EXPECT_EQ(quantized.zero.all_gather_algorithm, "direct");
  EXPECT_EQ(quantized.zero.reduce_scatter_algorithm, "1-hop");
  // Two codecs: two hops, nothing to measure.
  EXPECT_EQ(resolved(both, R"(,"gradient_codec_intra":"int8:256")").zero.reduce_scatter_algorithm,
            "2-hop");
  EXPECT_EQ(resolved(R"("zero_hpz_partition_size":2)").zero.secondary_gather_algorithm, "native");
  // native has a pipeline of its own.
  sweep_["config"]["pipeline_depth"] = 2;
  EXPECT_EQ(resolved(R"("zero_hpz_partition_size":2)", R"(,"pipeline_depth":2)")
                .zero.secondary_gather_algorithm,
            "direct");
  row("all_gather", "int8:256", "native-images", 4096, 5);
  EXPECT_EQ(resolved(R"("zero_quantized_weights":true)", R"(,"pipeline_depth":2)")
                .zero.all_gather_algorithm,
            "native-images");
  sweep_["config"]["pipeline_depth"] = 1;
  // Groups that no sweep has: by rule.
  EXPECT_EQ(resolved(R"("zero_hpz_partition_size":4)").zero.secondary_gather_algorithm, "flat");
  EXPECT_EQ(resolved("", R"(,"deterministic":true)").zero.reduce_scatter_algorithm, "ordered");
}

TEST_F(Table, Refusals) {
  plain();
  EXPECT_THAT(refusal(R"("zero_quantized_weights":true)"),
              AllOf(HasSubstr("no right row of all_gather with codec int8:256 in float"),
                    HasSubstr("--codec int8:256")));
  EXPECT_THAT(refusal("", R"(,"all_gather_algorithm":"flat","reduce_scatter_algorithm":"2-hop")"),
              AllOf(HasSubstr("zeropp.algorithm_table"), HasSubstr("auto")));
  EXPECT_THAT(refusal(R"("zero_hpz_partition_size":4)",
                      R"(,"all_gather_algorithm":"flat","reduce_scatter_algorithm":"2-hop")"),
              HasSubstr("has no effect"));
  EXPECT_THAT(refusal("", R"(,"pipeline_depth":3)"),
              AllOf(HasSubstr("pipeline depth 1, this run"), HasSubstr("pipeline depth 3")));
  sweep_["config"]["graph"] = 2;
  EXPECT_THAT(refusal(""), HasSubstr("-G or -m"));
  sweep_["config"]["graph"] = 0;
  sweep_["provenance"]["ranks_per_node"] = 4;
  EXPECT_THAT(refusal(""),
              AllOf(HasSubstr("1 x 4 ranks on host over mpi, pipeline depth 1, this run has 2 x 2"),
                    HasSubstr("run zpp_sweep")));
  sweep_.erase("results");
  EXPECT_THAT(refusal(""), HasSubstr("not the JSON of a zpp_sweep run"));
  sweep_ = "text";
  EXPECT_THAT(refusal(""), HasSubstr("not the JSON of a zpp_sweep run"));
  try {
    (void)AlgorithmTable::read("no/such/file");
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), HasSubstr("cannot read no/such/file"));
  }
}

}  // namespace
}  // namespace zeropp::config
