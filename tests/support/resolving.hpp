// A machine of any size for tests of what a configuration becomes there.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lib/base/error.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/model/registry.hpp"

namespace zeropp::config {

inline Machine machine(int nodes, int ranks_per_node, int world = 0) {
  return {.world_size = world > 0 ? world : nodes * ranks_per_node,
          .node_count = nodes,
          .ranks_per_node = ranks_per_node,
          .gpus = false,
          .own_gpus = false,
          .rdma = false,
          .gpu_problem = "no GPU here",
          .all_gather = {{"direct"},
                         {"flat"},
                         {"native", {.any_codec = false, .modelled = true, .one_chunk = true}},
                         {"native-images", {.modelled = true}},
                         {"plain", {.any_codec = false}},
                         {"two-level", {.hierarchical = true}},
                         {"unstable", {.deterministic = false}}},
          .reduce_scatter =
              {{"1-hop", {.feedback = true}},
               {"2-hop", {.hierarchical = true, .feedback = true}},
               {"flat", {.any_codec = false}},
               {"native",
                {.any_codec = false, .modelled = true, .deterministic = false, .one_chunk = true}},
               {"ordered", {.any_codec = false}}},
          .check_model = model::validate,
          .check_data = data::validate};
}

inline TrainConfig resolved(const std::string& text, const Machine& on) {
  TrainConfig config;
  auto table = options(config);
  read_text(text, "x.json", table);
  resolve(config, table, on);
  return config;
}

inline std::string refusal(const std::string& text, const Machine& on) {
  try {
    (void)resolved(text, on);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return "";
}

/// A configuration with shard groups of `size` and other keys.
inline std::string grouped(const std::string& size, const std::string& zero = "",
                           const std::string& own = "") {
  return R"({"zero_optimization":{)" + zero + R"(},"zeropp":{"shard_group_size":)" + size +
         (own.empty() ? "" : ",") + own + "}}";
}

}  // namespace zeropp::config
